//! An HTTP client.

use std::{future::Future, sync::OnceLock};

use tokio::runtime::{Builder, Runtime};

/// Runs a future on a shared runtime.
pub(crate) fn block<F: Future>(future: F) -> F::Output {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Builder::new_multi_thread().enable_all().build().unwrap()).block_on(future)
}

/// Returns a client that ignores proxies of the environment and speaks either HTTP/2 with prior knowledge or HTTP/1.1.
pub(crate) fn client(http2: bool) -> reqwest::Client {
    longboat_tls::install_default_provider();
    let builder = reqwest::Client::builder().no_proxy();
    if http2 { builder.http2_prior_knowledge() } else { builder.http1_only() }.build().unwrap()
}

/// Returns the body of a GET, or `None` if there is no response.
pub(crate) fn try_get(url: &str) -> Option<String> {
    block(async { client(false).get(url).send().await.ok()?.text().await.ok() })
}

/// A response with its whole body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Sends a JSON body to a path.
pub(crate) fn post(url: &str, path: &str, body: String, http2: bool) -> Answer {
    block(async {
        let request =
            client(http2).post(format!("{url}{path}")).header("content-type", "application/json").body(body);
        let answer = request.send().await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        Answer { status, headers, body: answer.text().await.unwrap_or_else(|error| format!("cut: {error}")) }
    })
}
