//! Accepts connections.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::{Builder, UpgradeableConnection},
};
use longboat_accept::{FramingStream, RunningRequests};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::{
    proxy::{Arrival, Proxy},
    socket_tls::SocketTls,
};

/// How long a client may take for the TLS handshake, for its first request, and to send the head of each, so that idle connections do
/// not accumulate.
const HEADER_TIMEOUT: Duration = Duration::from_mins(1);

/// The most connections at a time: enough for the clients of one machine, and far below the number of its ports.
const CONNECTIONS: usize = 16_384;

/// Serves until `shutdown`, then lets running requests finish for the time of `drain`.
pub(crate) async fn run(
    listener: TcpListener,
    tls: Option<SocketTls>,
    proxy: Arc<Proxy>,
    drain: Duration,
    shutdown: CancellationToken,
) {
    let Ok(local) = listener.local_addr() else { return };
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let server = Arc::new(Server { builder, proxy, local, shutdown: shutdown.clone() });
    let connection = |stream, peer| {
        let acceptor = tls.as_ref().map(|tls| tls.config().map(TlsAcceptor::from));
        let server = server.clone();
        async move {
            let acceptor = match acceptor {
                None => return server.serve(stream, peer, None).await,
                Some(Err(error)) => return tracing::warn!(%error, "TLS is not available."),
                Some(Ok(acceptor)) => acceptor,
            };
            match tokio::time::timeout(HEADER_TIMEOUT, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let name = stream.get_ref().1.server_name().unwrap_or_default().to_ascii_lowercase();
                    server.serve(stream, peer, Some(name.into())).await;
                }
                Ok(Err(error)) => tracing::debug!(%error, %peer, "A TLS handshake failed."),
                Err(_) => tracing::debug!(%peer, "A TLS handshake took too long."),
            }
        }
    };
    let mut open = longboat_accept::until(&shutdown, listener, CONNECTIONS, connection).await;
    longboat_accept::drain(&mut open, drain).await;
}

struct Server {
    builder: Builder<TokioExecutor>,
    proxy: Arc<Proxy>,
    local: SocketAddr,
    shutdown: CancellationToken,
}

// === impl Server ===

impl Server {
    /// Serves the requests of a connection. `server_name` is the name that a TLS client asked for, which may be empty.
    async fn serve<S>(&self, stream: S, peer: SocketAddr, server_name: Option<Arc<str>>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = FramingStream::new(stream).heads_within(&self.proxy.heads);
        let arrival = Arrival { peer, local: self.local, server_name, switch: stream.switched() };
        let proxy = self.proxy.clone();
        let _connection = proxy.metrics.connection();
        let requests = RunningRequests::default();
        let running = requests.clone();
        let service = service_fn(move |request| {
            let (proxy, arrival, request_running) = (proxy.clone(), arrival.clone(), running.begin());
            async move {
                let response = proxy.handle(request, &arrival).await;
                Ok::<_, Infallible>(request_running.until_end_of(response))
            }
        });
        let connection =
            self.builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
        let served = requests
            .serve(HEADER_TIMEOUT, &self.shutdown, connection, UpgradeableConnection::graceful_shutdown)
            .await;
        if let Some(Err(error)) = served {
            tracing::debug!(error, "A client connection ended early.");
        }
    }
}
