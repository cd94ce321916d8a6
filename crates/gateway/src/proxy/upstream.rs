//! Requests to one of several endpoints.

use std::{
    collections::HashMap,
    hash::Hash,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, Uri, Version, header, request::Parts, uri::Authority};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Builder, Client, Error, connect::dns::GaiResolver},
    rt::{TokioExecutor, TokioTimer},
};
use longboat_accept::{MAX_HEAD_BYTES, TcpConnector, UPSTREAM_IDLE_TIMEOUT};
use parking_lot::Mutex;
use rand::seq::SliceRandom;
use rustls::pki_types::ServerName;
use tokio_util::sync::CancellationToken;
use tower_service::Service;

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

/// The most informational responses (1xx) before a response. hyper reads and drops them, and a back end could send them for ever.
const MAX_INFORMATIONAL: usize = 100;

/// The most clients for TLS. Each has its own connections; if there are more policies, clients are created anew.
const MAX_TLS_CLIENTS: usize = 256;

/// The most clients for HTTP/2, one for each endpoint. The same holds for them.
const MAX_H2C_CLIENTS: usize = 1024;

/// Connection pools for all endpoints.
pub(crate) struct Upstream {
    http: Client<Connector, ProxyBody>,
    h2c: Mutex<HashMap<SocketAddr, H2cClient>>,
    tls: Mutex<HashMap<Arc<TlsSettings>, TlsClient>>,
    unverified_tls: TlsClient,
}

type Connector = TcpConnector<GaiResolver>;
type TlsClient = Client<HttpsConnector<Connector>, ProxyBody>;
type H2cClient = Client<EndpointDialer, ProxyBody>;

/// Connects to one endpoint, whatever the authority of a request is: HTTP/2 sends the host in `:authority`, by which a client would
/// otherwise choose where to connect.
#[derive(Clone)]
struct EndpointDialer {
    endpoint: Uri,
    tcp: Connector,
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
    #[error("cannot reach the back end: {}", longboat_tls::chain(.0))]
    Failed(#[source] Error),
    /// The endpoint has sent informational responses, and no response.
    #[error(
        "the back end has sent more than {MAX_INFORMATIONAL} informational responses (1xx) before its response"
    )]
    Flood,
    /// The policy for TLS to the back end cannot be used.
    #[error("{0}")]
    Policy(String),
    /// The client would get the answer without these transfer codings, and not know how to read it.
    #[error("the back end has answered with the transfer codings `{0}`, and only `chunked` is supported")]
    Coded(String),
    /// The client's body cannot be used.
    #[error(transparent)]
    Upload(#[from] UploadError),
}

/// After which failures of an endpoint the next one gets the request, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failover {
    /// After each: generation has no side effects.
    Always,
    /// If the endpoint has not got it, or if its method may be repeated (RFC 9110 §9.2.2). Any other request could take effect twice.
    IfSafe,
}

// === impl Failover ===

impl Failover {
    fn allows(self, method: &Method, error: &SendError) -> bool {
        let is_unsent = matches!(error, SendError::Failed(error) if error.is_connect());
        self == Self::Always || is_unsent || method.is_idempotent()
    }
}

// === impl Upstream ===

impl Upstream {
    pub(crate) fn new() -> Self {
        let unverified = HttpsConnectorBuilder::new()
            .with_tls_config(Arc::unwrap_or_clone(longboat_tls::insecure_client_config(&[])))
            .https_only()
            .enable_http1()
            .wrap_connector(connector());
        Self {
            http: builder().build(connector()),
            h2c: Mutex::default(),
            tls: Mutex::default(),
            unverified_tls: builder().build(unverified),
        }
    }

    /// Sends a request to endpoints of a Service in random order. A body that was not read yet is not buffered unless the
    /// route asks for retries and the buffer has room, so the next endpoint is only tried while no endpoint has begun to read the body.
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
        let retries = attempts.retry.is_some() && upload.fits();
        let untouched = if retries { None } else { upload.untouched() };
        let Some(body) = untouched else {
            upload.read().await?;
            let sent = self.send_again(&head, upload.chunks(), order, link, attempts, Failover::IfSafe);
            return sent.await.map(|(_, response)| response);
        };
        let body = RetryableBody::new(body);
        let mut last = SendError::NoEndpoint;
        for endpoint in order {
            match self
                .attempt(head.clone(), ProxyBody::for_attempt(&body), endpoint, link, attempts.timeout)
                .await
            {
                // Only until a byte was read: what an endpoint has read of the body is gone.
                Err(SendError::Failed(error)) if error.is_connect() && body.is_whole() => {
                    last = SendError::Failed(error);
                }
                done => {
                    body.answered();
                    return done;
                }
            }
        }
        Err(last)
    }

    /// Sends a request as often as the retries of the route say.
    pub(crate) async fn send_again(
        &self,
        head: &Parts,
        body: &[Bytes],
        mut endpoints: Vec<SocketAddr>,
        link: &Link,
        attempts: &Attempts,
        failover: Failover,
    ) -> Result<(SocketAddr, Response<ProxyBody>), SendError> {
        let retry = attempts.retry.clone().unwrap_or_default();
        let mut left = retry.attempts;
        loop {
            let order = endpoints.iter().copied();
            let sent = self.send_replayable(head, body, order, link, attempts.timeout, failover).await;
            let again = match &sent {
                Ok((_, response)) => retry.codes.contains(&response.status().as_u16()),
                Err(SendError::Failed(_) | SendError::Timeout | SendError::NoEndpoint) => true,
                Err(SendError::Policy(_) | SendError::Coded(_) | SendError::Flood | SendError::Upload(_)) => {
                    false
                }
            };
            if !again || left == 0 {
                return sent;
            }
            left -= 1;
            // Another endpoint may be better than the one that has failed.
            if let Some(last) = endpoints.len().checked_sub(1) {
                endpoints.rotate_right(last);
            }
            tokio::time::sleep(retry.backoff).await;
        }
    }

    /// Sends a request with a buffered body to the endpoints in order, until one answers. If an endpoint dies before it has
    /// answered, the next one gets the request where `failover` allows it.
    pub(crate) async fn send_replayable(
        &self,
        head: &Parts,
        body: &[Bytes],
        endpoints: impl Iterator<Item = SocketAddr> + Send,
        link: &Link,
        timeout: Option<Duration>,
        failover: Failover,
    ) -> Result<(SocketAddr, Response<ProxyBody>), SendError> {
        let mut last = SendError::NoEndpoint;
        for endpoint in endpoints {
            let body = ProxyBody::chunks(body.to_vec());
            match self.attempt(head.clone(), body, endpoint, link, timeout).await {
                Ok(response) => return Ok((endpoint, response)),
                // An attempt of the route has one timeout, and each further endpoint would add another.
                Err(SendError::Timeout) => return Err(SendError::Timeout),
                Err(error) if !failover.allows(&head.method, &error) => return Err(error),
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
        let link = link.to(endpoint);
        let path = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        let scheme = if matches!(link, Link::Tls(_) | Link::UnverifiedTls) { "https" } else { "http" };
        // HTTP/2 has the host in `:authority`, and must not name another one in a field (RFC 9113 §8.3.1).
        let host = match link {
            Link::H2c => head.headers.remove(header::HOST),
            _ => None,
        };
        let host = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
        let authority = host.map_or_else(|| endpoint.to_string(), |host| host.to_string());
        head.uri = Uri::builder()
            .scheme(scheme)
            .authority(authority)
            .path_and_query(path)
            .build()
            .unwrap_or_default();
        head.version = if *link == Link::H2c { Version::HTTP_2 } else { Version::HTTP_11 };
        // The extensions belong to the client's connection.
        head.extensions = http::Extensions::new();
        let mut request = Request::from_parts(head, body);
        let flood = limit_informational(&mut request);
        let sent = match link {
            Link::UnverifiedTls => self.unverified_tls.request(request),
            // `Link::to` has decided for this endpoint.
            Link::Http | Link::UnverifiedTlsTo(_) => self.http.request(request),
            Link::H2c => {
                cached(&self.h2c, MAX_H2C_CLIENTS, &endpoint, || h2c_client(endpoint))?.request(request)
            }
            Link::Tls(settings) => {
                cached(&self.tls, MAX_TLS_CLIENTS, settings, || tls_client(settings))?.request(request)
            }
            Link::Refused(message) => return Err(SendError::Policy(message.clone())),
        };
        let answered = async {
            match timeout {
                Some(timeout) => tokio::time::timeout(timeout, sent).await.map_err(|_| SendError::Timeout),
                None => Ok(sent.await),
            }
        };
        let answered = flood.run_until_cancelled(answered).await.ok_or(SendError::Flood)??;
        let mut response = answered.map_err(SendError::Failed)?.map(ProxyBody::incoming);
        if let Some(codings) = longboat_accept::lost_codings(response.headers()) {
            return Err(SendError::Coded(codings));
        }
        // The version of a message is that of its sender. With HTTP/1.0, clients would close their connection to the gateway.
        *response.version_mut() = Version::HTTP_11;
        Ok(response)
    }
}

// === impl EndpointDialer ===

impl Service<Uri> for EndpointDialer {
    type Response = <Connector as Service<Uri>>::Response;
    type Error = <Connector as Service<Uri>>::Error;
    type Future = <Connector as Service<Uri>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.tcp.poll_ready(context)
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        self.tcp.call(self.endpoint.clone())
    }
}

/// Returns the client of a key, which is made if there is none. Of too many, all are made anew.
fn cached<K: Hash + Eq + Clone, C: Clone>(
    clients: &Mutex<HashMap<K, C>>,
    limit: usize,
    key: &K,
    make: impl FnOnce() -> Result<C, String>,
) -> Result<C, SendError> {
    let mut clients = clients.lock();
    if let Some(client) = clients.get(key) {
        return Ok(client.clone());
    }
    let client = make().map_err(SendError::Policy)?;
    // Requests in flight keep their clones. To know which clients are unused would cost each request a write.
    if clients.len() >= limit {
        clients.clear();
    }
    clients.insert(key.clone(), client.clone());
    Ok(client)
}

/// Returns a token that is cancelled if a back end with HTTP/1 sends too many informational responses.
fn limit_informational(request: &mut Request<ProxyBody>) -> CancellationToken {
    let (flood, count) = (CancellationToken::new(), AtomicUsize::new(0));
    let seen = flood.clone();
    hyper::ext::on_informational(request, move |_| {
        if count.fetch_add(1, Ordering::Relaxed) >= MAX_INFORMATIONAL {
            seen.cancel();
        }
    });
    flood
}

fn builder() -> Builder {
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_idle_timeout(UPSTREAM_IDLE_TIMEOUT).timer(TokioTimer::new()).pool_timer(TokioTimer::new());
    builder
}

fn h2c_client(endpoint: SocketAddr) -> Result<H2cClient, String> {
    let endpoint = Uri::try_from(format!("http://{endpoint}/")).map_err(|error| error.to_string())?;
    let mut builder = builder();
    builder.http2_only(true).http2_max_header_list_size(MAX_HEAD_BYTES);
    Ok(builder.build(EndpointDialer { endpoint, tcp: connector() }))
}

fn connector() -> Connector {
    TcpConnector::new(GaiResolver::new(), CONNECT_TIMEOUT)
}

fn tls_client(settings: &TlsSettings) -> Result<TlsClient, String> {
    let name = ServerName::try_from(settings.server_name.clone())
        .map_err(|_| format!("`{}` is no host name", settings.server_name))?;
    let config = if settings.names.is_empty() {
        longboat_tls::client_config(&settings.ca_pem, &[])
    } else {
        longboat_tls::client_config_for_names(&settings.ca_pem, settings.names.clone(), &[])
    };
    let mut config = config.map_err(|error| error.to_string())?;
    if let Some(own) = &settings.client {
        config = longboat_tls::with_client_certificate(&config, own).map_err(|error| error.to_string())?;
    }
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(Arc::unwrap_or_clone(config))
        .https_only()
        .with_server_name_resolver(FixedServerNameResolver::new(name))
        .enable_http1()
        .wrap_connector(connector());
    Ok(builder().build(connector))
}
