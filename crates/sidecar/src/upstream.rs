//! Connections to the engine beside the sidecar and to prefillers.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::{BoxFuture, FutureExt};
use http::{Request, Response, StatusCode, Uri, Version, uri::Authority};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{
        Client, Error as ClientError,
        connect::dns::{GaiResolver, Name},
    },
    rt::{TokioExecutor, TokioTimer},
};
use longboat_accept::{TcpConnector, UPSTREAM_IDLE_TIMEOUT};
use longboat_tls::ReloadingRoots;
use tower_service::Service;

use crate::{
    body::{BodyError, ProxyBody},
    settings::{Leg, Settings},
};

/// The time limit of a connection attempt. An address in the cluster answers soon or not at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// The time limit of a TLS handshake. A server without TLS may never answer it.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why an engine has not answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// The engine cannot be reached, or it broke the connection off.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The engine switched to another protocol.
    #[error("it answered with 101 Switching Protocols, which the request did not ask for")]
    Switched,
}

/// A connection pool for one stage.
#[derive(Clone)]
pub(crate) struct Upstream {
    client: Client<TimedConnector<HttpsConnector<TcpConnector<Resolver>>>, ProxyBody>,
    scheme: &'static str,
}

// === impl Upstream ===

impl Upstream {
    /// Creates the client for prefillers.
    pub(crate) fn prefiller(settings: &Settings, trusted: Option<&ReloadingRoots>) -> Self {
        Self::new(settings.prefiller, settings, trusted, None)
    }

    /// Creates the client for encoders.
    pub(crate) fn encoder(settings: &Settings, trusted: Option<&ReloadingRoots>) -> Self {
        Self::new(settings.encoders, settings, trusted, None)
    }

    /// Creates a client for ports without TLS.
    pub(crate) fn plain(settings: &Settings) -> Self {
        Self::new(Leg { tls: false, verify: true }, settings, None, None)
    }

    /// Creates the client for the engines beside the sidecar.
    pub(crate) fn decoder(settings: &Settings, trusted: Option<&ReloadingRoots>) -> Self {
        Self::new(settings.decoder, settings, trusted, settings.address)
    }

    fn new(
        leg: Leg,
        settings: &Settings,
        trusted: Option<&ReloadingRoots>,
        localhost: Option<IpAddr>,
    ) -> Self {
        let resolver = Resolver { localhost, system: GaiResolver::new() };
        let connector = TcpConnector::new(resolver, CONNECT_TIMEOUT);
        let tls = match trusted {
            Some(trusted) if leg.is_verified() => trusted.client_config(),
            None if leg.is_verified() => ReloadingRoots::of_environment().client_config(),
            _ => Arc::unwrap_or_clone(longboat_tls::insecure_client_config(&[])),
        };
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        // The time of a handshake includes that of its connection, so the shorter one counts.
        let patience = if leg.tls { HANDSHAKE_TIMEOUT } else { CONNECT_TIMEOUT };
        let connector = TimedConnector { connector, patience };
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(UPSTREAM_IDLE_TIMEOUT)
            .pool_max_idle_per_host(settings.idle_connections)
            .build(connector);
        Self { client, scheme: if leg.tls { "https" } else { "http" } }
    }

    /// Sends a request to a host and port. Keeps the request's path and query.
    pub(crate) async fn send(
        &self,
        authority: &Authority,
        mut request: Request<ProxyBody>,
    ) -> Result<Response<Incoming>, SendError> {
        let path = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        let uri = Uri::builder().scheme(self.scheme).authority(authority.clone()).path_and_query(path);
        *request.uri_mut() = uri.build().unwrap_or_default();
        *request.version_mut() = Version::HTTP_11;
        let response = self.client.request(request).await?;
        // The request cannot have asked for this, because `Upgrade` is not passed on.
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(SendError::Switched);
        }
        Ok(response)
    }
}

/// A connector with a time limit.
#[derive(Clone)]
struct TimedConnector<C> {
    connector: C,
    patience: Duration,
}

// === impl TimedConnector ===

impl<C> Service<Uri> for TimedConnector<C>
where
    C: Service<Uri, Error = BodyError, Future: Send + 'static>,
{
    type Response = C::Response;
    type Error = BodyError;
    type Future = BoxFuture<'static, Result<C::Response, BodyError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        self.connector.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = tokio::time::timeout(self.patience, self.connector.call(uri));
        async move { connecting.await.unwrap_or_else(|_| Err("no connection in time".into())) }.boxed()
    }
}

/// The system's resolver. On a local node, where each pod has its own address, `localhost` resolves to the pod's address.
#[derive(Clone)]
struct Resolver {
    localhost: Option<IpAddr>,
    system: GaiResolver,
}

// === impl Resolver ===

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = std::io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.system.poll_ready(context)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        if let Some(address) = self.localhost.filter(|_| name.as_str() == "localhost") {
            // hyper-util replaces a port of 0 by that of the request.
            return std::future::ready(Ok(vec![SocketAddr::new(address, 0)].into_iter())).boxed();
        }
        let resolving = self.system.call(name);
        async move { Ok(resolving.await?.collect::<Vec<_>>().into_iter()) }.boxed()
    }
}
