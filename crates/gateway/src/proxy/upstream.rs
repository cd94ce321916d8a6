//! Sending to one of several endpoints.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{Request, Response, Uri, Version, request::Parts};
use hyper_util::{
    client::legacy::{Client, Error, connect::HttpConnector},
    rt::TokioExecutor,
};
use rand::seq::SliceRandom;

use super::{
    body::{Lent, ProxyBody},
    upload::{Upload, UploadError},
};

/// An endpoint on this machine or network answers a connection attempt at once or not at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A server may close an idle connection at any time; vLLM's does after 5 seconds. Ours gives it up before.
const IDLE: Duration = Duration::from_secs(4);

/// Pooled connections to all endpoints.
pub(crate) struct Upstream {
    client: Client<HttpConnector, ProxyBody>,
}

/// No back end answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// There is none to ask.
    #[error("no endpoint is ready")]
    NoEndpoint,
    /// None began to answer in the route's time.
    #[error("the back end did not answer within the route's backendRequest timeout")]
    Timeout,
    /// The last one tried failed.
    #[error("the back end cannot be reached: {0}")]
    Failed(#[source] Error),
    /// The client's body cannot be used.
    #[error(transparent)]
    Upload(#[from] UploadError),
}

// === impl Upstream ===

impl Upstream {
    pub(crate) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let client = Client::builder(TokioExecutor::new()).pool_idle_timeout(IDLE).build(connector);
        Self { client }
    }

    /// Sends to endpoints in random order. A body that nobody has begun to read needs no buffer, so the
    /// next endpoint is tried only until one has begun to read it.
    pub(crate) async fn send(
        &self,
        head: Parts,
        mut upload: Upload,
        endpoints: &[SocketAddr],
        timeout: Option<Duration>,
    ) -> Result<Response<ProxyBody>, SendError> {
        let mut order = endpoints.to_vec();
        order.shuffle(&mut rand::rng());
        let Some(body) = upload.untouched() else {
            upload.read().await?;
            let sent = self.send_replayable(&head, upload.chunks(), &order, timeout).await?;
            return Ok(sent.1);
        };
        let body = Lent::new(body);
        let mut last = SendError::NoEndpoint;
        for endpoint in order {
            match self.attempt(head.clone(), ProxyBody::lent(&body), endpoint, timeout).await {
                Err(SendError::Failed(error)) if error.is_connect() && body.is_whole() => {
                    last = SendError::Failed(error);
                }
                done => return done,
            }
        }
        Err(last)
    }

    /// Sends a body that is at hand, to the endpoints in order, until one answers. An endpoint that dies before it has
    /// answered anything counts as not having taken the request: generation has no side effect, so the next is asked.
    pub(crate) async fn send_replayable(
        &self,
        head: &Parts,
        body: &[Bytes],
        endpoints: &[SocketAddr],
        timeout: Option<Duration>,
    ) -> Result<(SocketAddr, Response<ProxyBody>), SendError> {
        let mut last = SendError::NoEndpoint;
        for endpoint in endpoints {
            match self.attempt(head.clone(), ProxyBody::chunks(body.to_vec()), *endpoint, timeout).await {
                Ok(response) => return Ok((*endpoint, response)),
                Err(SendError::Timeout) => return Err(SendError::Timeout),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn attempt(
        &self,
        mut head: Parts,
        body: ProxyBody,
        endpoint: SocketAddr,
        timeout: Option<Duration>,
    ) -> Result<Response<ProxyBody>, SendError> {
        let path = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        head.uri = Uri::builder()
            .scheme("http")
            .authority(endpoint.to_string())
            .path_and_query(path)
            .build()
            .unwrap_or_default();
        head.version = Version::HTTP_11;
        // Belongs to the connection of the client.
        head.extensions = http::Extensions::new();
        let sent = self.client.request(Request::from_parts(head, body));
        let answered = match timeout {
            Some(timeout) => tokio::time::timeout(timeout, sent).await.map_err(|_| SendError::Timeout)?,
            None => sent.await,
        };
        answered.map(|response| response.map(ProxyBody::incoming)).map_err(SendError::Failed)
    }
}
