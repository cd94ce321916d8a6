//! Connections to the webhook server.

use std::{net::SocketAddr, sync::Arc};

use hyper_util::rt::TokioTimer;
use longboat_accept::{Budget, Builder, FramingStream};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::{answer::WebhookHandler, settings::Limits};

/// Concurrent requests per connection. Go's clients open another connection above it.
const MAX_STREAMS: u32 = 250;

/// Serves until `shutdown`, then accepts no new connection and gives open requests a grace period.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    answering: WebhookHandler,
    limits: Limits,
    shutdown: CancellationToken,
) {
    let mut builder = longboat_accept::builder(limits.idle);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .keep_alive_interval(limits.idle)
        .keep_alive_timeout(limits.patience);
    let server = Arc::new(Server {
        tls,
        http1: builder.clone().http1_only(),
        http2: builder.http2_only(),
        answering: Arc::new(answering),
        heads: Budget::new(limits.heads),
        limits,
        shutdown: shutdown.clone(),
    });
    let connection = |stream, peer| {
        let server = server.clone();
        async move { server.connection(stream, peer).await }
    };
    let mut open = longboat_accept::until(&shutdown, listener, limits.connections, connection).await;
    if !longboat_accept::drain(&mut open, limits.drain).await {
        tracing::warn!("Aborted the webhook requests that did not end in time.");
    }
}

struct Server {
    tls: Arc<rustls::ServerConfig>,
    http1: Builder,
    http2: Builder,
    answering: Arc<WebhookHandler>,
    /// The memory of the heads that arrive.
    heads: Arc<Budget>,
    limits: Limits,
    shutdown: CancellationToken,
}

// === impl Server ===

impl Server {
    async fn connection(&self, stream: TcpStream, peer: SocketAddr) {
        // An API server that does not trust the CA yet fails here. The readiness check says why.
        let limit = self.limits.patience;
        let handshake = longboat_tls::handshake(self.tls.clone(), stream, peer, limit, &self.shutdown);
        if let Some(stream) = handshake.await {
            self.requests(stream).await;
        }
    }

    async fn requests(&self, stream: TlsStream<TcpStream>) {
        // Not by the first bytes: HTTP/2 may be turned off, and then it is not offered.
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let builder = if is_http2 { &self.http2 } else { &self.http1 };
        let stream = FramingStream::new(stream).with_head_budget(&self.heads);
        let answer = |request| {
            let answering = self.answering.clone();
            async move { answering.answer(request).await }
        };
        longboat_accept::serve(stream, builder, self.limits.idle, &self.shutdown, answer).await;
    }
}
