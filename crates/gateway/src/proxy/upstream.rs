//! Requests to one of several endpoints.

use std::{collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, Uri, Version, request::Parts};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, Error, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use parking_lot::Mutex;
use rand::seq::SliceRandom;
use rustls::pki_types::ServerName;

use super::{
    body::{ProxyBody, RetryableBody},
    upload::{Upload, UploadError},
};
use crate::{
    route::{Attempts, Link, ServiceBackend},
    tls_policies::TlsSettings,
};

/// The connection timeout: an endpoint on this machine or network accepts a connection at once or not at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long an idle connection is kept. A server may close an idle connection at any time, and vLLM does so after 5 seconds,
/// so the gateway closes it earlier.
const IDLE: Duration = Duration::from_secs(4);

/// The most clients for TLS. Each has its own connections; if there are more policies, clients are created anew.
const MAX_TLS_CLIENTS: usize = 256;

/// Connection pools for all endpoints.
pub(crate) struct Upstream {
    http: Client<HttpConnector, ProxyBody>,
    h2c: Client<HttpConnector, ProxyBody>,
    tls: Mutex<HashMap<Arc<TlsSettings>, TlsClient>>,
}

type TlsClient = Client<HttpsConnector<HttpConnector>, ProxyBody>;

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
    /// The policy for TLS to the back end cannot be used.
    #[error("{0}")]
    Policy(String),
    /// The client's body cannot be used.
    #[error(transparent)]
    Upload(#[from] UploadError),
}

// === impl Upstream ===

impl Upstream {
    pub(crate) fn new() -> Self {
        let builder = || {
            let mut builder = Client::builder(TokioExecutor::new());
            builder.pool_idle_timeout(IDLE).timer(TokioTimer::new()).pool_timer(TokioTimer::new());
            builder
        };
        Self {
            http: builder().build(connector()),
            h2c: builder().http2_only(true).build(connector()),
            tls: Mutex::default(),
        }
    }

    /// Sends a request to endpoints of a Service in random order. A body that was not read yet is not buffered unless the
    /// route asks for retries, so the next endpoint is only tried while no endpoint has begun to read the body.
    pub(crate) async fn send(
        &self,
        head: Parts,
        mut upload: Upload,
        service: &ServiceBackend,
        attempts: &Attempts,
    ) -> Result<Response<ProxyBody>, SendError> {
        let ServiceBackend { endpoints, link } = service;
        let mut order = endpoints.clone();
        order.shuffle(&mut rand::rng());
        let untouched = if attempts.retry.is_some() { None } else { upload.untouched() };
        let Some(body) = untouched else {
            upload.read().await?;
            return self.send_again(&head, upload.chunks(), &order, link, attempts).await;
        };
        let body = RetryableBody::new(body);
        let mut last = SendError::NoEndpoint;
        for endpoint in order {
            match self.attempt(head.clone(), ProxyBody::lent(&body), endpoint, link, attempts.timeout).await {
                Err(SendError::Failed(error)) if error.is_connect() && body.is_whole() => {
                    last = SendError::Failed(error);
                }
                done => return done,
            }
        }
        Err(last)
    }

    /// Sends a request as often as the retries of the route say.
    async fn send_again(
        &self,
        head: &Parts,
        body: &[Bytes],
        endpoints: &[SocketAddr],
        link: &Link,
        attempts: &Attempts,
    ) -> Result<Response<ProxyBody>, SendError> {
        let retry = attempts.retry.clone().unwrap_or_default();
        let mut left = retry.attempts;
        loop {
            let sent = self.send_replayable(head, body, endpoints, link, attempts.timeout).await;
            let again = match &sent {
                Ok((_, response)) => retry.codes.contains(&response.status().as_u16()),
                Err(SendError::Failed(_) | SendError::Timeout | SendError::NoEndpoint) => true,
                Err(SendError::Policy(_) | SendError::Upload(_)) => false,
            };
            if !again || left == 0 {
                return sent.map(|(_, response)| response);
            }
            left -= 1;
            tokio::time::sleep(retry.backoff).await;
        }
    }

    /// Sends a request with a buffered body to the endpoints in order, until one answers. If an endpoint dies before it has
    /// answered, the next one gets the request: this is safe because generation has no side effects.
    pub(crate) async fn send_replayable(
        &self,
        head: &Parts,
        body: &[Bytes],
        endpoints: &[SocketAddr],
        link: &Link,
        timeout: Option<Duration>,
    ) -> Result<(SocketAddr, Response<ProxyBody>), SendError> {
        let mut last = SendError::NoEndpoint;
        for endpoint in endpoints {
            let body = ProxyBody::chunks(body.to_vec());
            match self.attempt(head.clone(), body, *endpoint, link, timeout).await {
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
        link: &Link,
        timeout: Option<Duration>,
    ) -> Result<Response<ProxyBody>, SendError> {
        let path = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        let scheme = if matches!(link, Link::Tls(_)) { "https" } else { "http" };
        head.uri = Uri::builder()
            .scheme(scheme)
            .authority(endpoint.to_string())
            .path_and_query(path)
            .build()
            .unwrap_or_default();
        head.version = if *link == Link::H2c { Version::HTTP_2 } else { Version::HTTP_11 };
        // The extensions belong to the client's connection.
        head.extensions = http::Extensions::new();
        let request = Request::from_parts(head, body);
        let sent = match link {
            Link::Http => self.http.request(request),
            Link::H2c => self.h2c.request(request),
            Link::Tls(settings) => self.tls(settings)?.request(request),
            Link::Refused(message) => return Err(SendError::Policy(message.clone())),
        };
        let answered = match timeout {
            Some(timeout) => tokio::time::timeout(timeout, sent).await.map_err(|_| SendError::Timeout)?,
            None => sent.await,
        };
        answered.map(|response| response.map(ProxyBody::incoming)).map_err(SendError::Failed)
    }

    /// Returns the client for these settings.
    fn tls(&self, settings: &Arc<TlsSettings>) -> Result<TlsClient, SendError> {
        let mut clients = self.tls.lock();
        if let Some(client) = clients.get(settings) {
            return Ok(client.clone());
        }
        let client = tls_client(settings).map_err(SendError::Policy)?;
        if clients.len() >= MAX_TLS_CLIENTS {
            clients.clear();
        }
        clients.insert(settings.clone(), client.clone());
        Ok(client)
    }
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector
}

fn tls_client(settings: &TlsSettings) -> Result<TlsClient, String> {
    let name = ServerName::try_from(settings.server_name.clone())
        .map_err(|_| format!("`{}` is no host name", settings.server_name))?;
    let config = if settings.names.is_empty() {
        longboat_tls::client_config(Some(&settings.ca_pem), &[])
    } else {
        longboat_tls::client_config_for_names(&settings.ca_pem, settings.names.clone(), &[])
    };
    let config = config.map_err(|error| error.to_string())?;
    let mut tcp = connector();
    tcp.enforce_http(false);
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(Arc::unwrap_or_clone(config))
        .https_only()
        .with_server_name_resolver(FixedServerNameResolver::new(name))
        .enable_http1()
        .wrap_connector(tcp);
    Ok(Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE)
        .pool_timer(TokioTimer::new())
        .build(connector))
}
