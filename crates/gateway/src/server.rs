//! Accepts connections.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use longboat_accept::{Builder, ConnectionThreads, FramingStream};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

use crate::{
    proxy::{Arrival, Proxy},
    socket_tls::SocketTls,
};

/// How long a client may take for the TLS handshake, for its first request, and to send the head of each, so that idle connections do
/// not accumulate.
const HEADER_TIMEOUT: Duration = Duration::from_mins(1);

/// The most connections at a time: enough for the clients of one machine, and far below the number of its ports.
const MAX_CONNECTIONS: usize = 16_384;

/// The most threads for connections. A thread forwards far more than the requests of an engine.
const MAX_THREADS: usize = 16;

/// The threads that serve the connections of all sockets, and the proxy of each.
pub(crate) struct ProxyThreads {
    threads: ConnectionThreads,
    proxies: Vec<Arc<Proxy>>,
}

// === impl ProxyThreads ===

impl ProxyThreads {
    /// Starts a thread for each core.
    pub(crate) fn start(proxy: &Proxy) -> io::Result<Arc<Self>> {
        ConnectionThreads::for_each_core("gateway", MAX_THREADS).map(|threads| Self::with(threads, proxy))
    }

    /// Serves on these threads.
    pub(crate) fn with(threads: ConnectionThreads, proxy: &Proxy) -> Arc<Self> {
        let proxies = (0..threads.runtimes()).map(|_| Arc::new(proxy.for_thread())).collect();
        Arc::new(Self { threads, proxies })
    }

    /// Serves a socket until `shutdown`, then lets running requests finish for the time of `drain`.
    pub(crate) async fn serve(
        &self,
        listener: TcpListener,
        tls: Option<SocketTls>,
        drain: Duration,
        shutdown: CancellationToken,
    ) {
        let Ok(local) = listener.local_addr() else { return };
        let builder = longboat_accept::builder(HEADER_TIMEOUT);
        let tls = tls.map(Arc::new);
        let server = |proxy: &Arc<Proxy>| {
            let (builder, proxy, tls) = (builder.clone(), proxy.clone(), tls.clone());
            Arc::new(Server { builder, proxy, tls, local, shutdown: shutdown.clone() })
        };
        let servers: Arc<[_]> = self.proxies.iter().map(server).collect();
        let connection = move |thread: usize, stream, peer| {
            let servers: Arc<[Arc<Server>]> = servers.clone();
            async move { servers[thread].accept(stream, peer).await }
        };
        let mut open = self.threads.until(&shutdown, listener, MAX_CONNECTIONS, connection).await;
        longboat_accept::drain(&mut open, drain).await;
    }
}

/// A socket on one of the threads.
struct Server {
    builder: Builder,
    proxy: Arc<Proxy>,
    tls: Option<Arc<SocketTls>>,
    local: SocketAddr,
    shutdown: CancellationToken,
}

// === impl Server ===

impl Server {
    /// Serves a connection.
    async fn accept(&self, stream: TcpStream, peer: SocketAddr) {
        let config = match self.tls.as_ref().map(|tls| tls.config()) {
            None => return self.serve(stream, peer, None).await,
            Some(Err(error)) => return tracing::warn!(%error, "TLS is not available."),
            Some(Ok(config)) => config,
        };
        let handshake = longboat_tls::handshake(config, stream, peer, HEADER_TIMEOUT, &self.shutdown);
        if let Some(stream) = handshake.await {
            // The tables have host names in lower case.
            let name = stream.get_ref().1.server_name().unwrap_or_default().to_ascii_lowercase();
            self.serve(stream, peer, Some(name.into())).await;
        }
    }

    /// Serves the requests of a connection. `server_name` is the name that a TLS client asked for, which may be empty.
    async fn serve<S>(&self, stream: S, peer: SocketAddr, server_name: Option<Arc<str>>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = FramingStream::new(stream).with_head_budget(&self.proxy.heads);
        let arrival = Arrival { peer, local: self.local, server_name, switch: stream.switched() };
        let proxy = self.proxy.clone();
        let _connection = proxy.metrics.connection();
        let answer = |request| {
            let (proxy, arrival) = (proxy.clone(), arrival.clone());
            async move { proxy.handle(request, &arrival).await }
        };
        longboat_accept::serve(stream, &self.builder, HEADER_TIMEOUT, &self.shutdown, answer).await;
    }
}
