//! The model that an endpoint serves, as its API says. Old KV cache events do not name the model, and a picker that has just
//! started has not seen newer ones.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde::Deserialize;
use tokio::time::timeout;

use crate::companion::{self, AnswerError};

/// How long an endpoint may take to answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest list of models. Real lists are far shorter.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// Asks endpoints for their models, over the same scheme as for their metrics.
#[derive(Debug)]
pub(crate) struct Models {
    scheme: String,
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
}

impl Models {
    pub(crate) fn new(scheme: &str, tls: &Arc<rustls::ClientConfig>) -> Self {
        let mut tls = (**tls).clone();
        // The connector sets the ALPN protocols itself.
        tls.alpn_protocols.clear();
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
        Self { scheme: scheme.to_owned(), client: Client::builder(TokioExecutor::new()).build(connector) }
    }

    /// Returns the endpoint's only model, not counting adapters. Returns `None` if the endpoint does not answer or has several
    /// models.
    pub(super) async fn of(&self, host_port: &str) -> Option<String> {
        let uri = format!("{}://{host_port}/v1/models", self.scheme);
        let request = Request::get(uri).body(Empty::new()).ok()?;
        let response =
            companion::read::<AnswerError>(self.client.request(request), MAX_RESPONSE_BYTES, |_| Ok(()));
        let answer = timeout(REQUEST_TIMEOUT, response).await.ok()?.ok()?;
        only(&answer)
    }
}

fn only(answer: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct List {
        data: Vec<Model>,
    }
    #[derive(Deserialize)]
    struct Model {
        id: String,
        parent: Option<String>,
    }
    let list: List = serde_json::from_slice(answer).ok()?;
    let mut models = list.data.into_iter().filter(|model| model.parent.is_none());
    let first = models.next()?;
    models.next().is_none().then_some(first.id)
}

#[cfg(test)]
mod tests {
    use super::only;

    #[test]
    fn adapters_are_not_the_model_and_two_names_are_none() {
        let list = |models: &str| only(format!(r#"{{"object":"list","data":[{models}]}}"#).as_bytes());
        let adapter = r#"{"id":"a","parent":"m"}"#;
        assert_eq!(list(&format!(r#"{{"id":"m","parent":null}},{adapter}"#)).as_deref(), Some("m"));
        assert_eq!(list(r#"{"id":"m"},{"id":"n"}"#), None);
        assert_eq!((list(""), only(b"[]")), (None, None));
    }
}
