//! Requests to one of several endpoints.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{Request, Response, Uri, Version, request::Parts};
use hyper_util::{
    client::legacy::{Client, Error, connect::HttpConnector},
    rt::TokioExecutor,
};
use rand::seq::SliceRandom;

use super::{
    body::{ProxyBody, RetryableBody},
    upload::{Upload, UploadError},
};

/// The connection timeout: an endpoint on this machine or network accepts a connection at once or not at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long an idle connection is kept. A server may close an idle connection at any time, and vLLM does so after 5 seconds,
/// so the gateway closes it earlier.
const IDLE: Duration = Duration::from_secs(4);

/// A connection pool for all endpoints.
pub(crate) struct Upstream {
    client: Client<HttpConnector, ProxyBody>,
}

/// Why no back end answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// There is no ready endpoint.
    #[error("no endpoint is ready")]
    NoEndpoint,
    /// No endpoint began to answer within the route's timeout.
    #[error("the back end did not answer within the backendRequest timeout of the route")]
    Timeout,
    /// The last endpoint that was tried failed.
    #[error("cannot reach the back end: {0}")]
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

    /// Sends a request to endpoints in random order. A body that was not read yet is not buffered, so the next endpoint is
    /// only tried while no endpoint has begun to read the body.
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
        let body = RetryableBody::new(body);
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

    /// Sends a request with a buffered body to the endpoints in order, until one answers. If an endpoint dies before it has
    /// answered, the next one gets the request: this is safe because generation has no side effects.
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
        // The extensions belong to the client's connection.
        head.extensions = http::Extensions::new();
        let sent = self.client.request(Request::from_parts(head, body));
        let answered = match timeout {
            Some(timeout) => tokio::time::timeout(timeout, sent).await.map_err(|_| SendError::Timeout)?,
            None => sent.await,
        };
        answered.map(|response| response.map(ProxyBody::incoming)).map_err(SendError::Failed)
    }
}
