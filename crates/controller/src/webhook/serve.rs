//! Connections to the webhook server.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hyper::{
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
};
use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::Instant,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;

use super::{answer::WebhookHandler, settings::Limits};

/// Concurrent requests per connection. Go's clients open another connection above it.
const STREAMS: u32 = 250;

/// Serves until `shutdown`, then accepts no new connection and gives open requests a grace period.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    answering: WebhookHandler,
    limits: Limits,
    shutdown: CancellationToken,
) {
    let (acceptor, answering) = (TlsAcceptor::from(tls), Arc::new(answering));
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(limits.connections));
    let mut connections = JoinSet::new();
    loop {
        let permit = shutdown.run_until_cancelled(Arc::clone(&room).acquire_owned()).await;
        let Some(Ok(permit)) = permit else { break };
        let stream = loop {
            tokio::select! {
                () = shutdown.cancelled() => break None,
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => break Some(stream),
                    Err(error) => {
                        // Out of file descriptors, or a client that left at once: the server goes on.
                        tracing::debug!(%error, "Cannot accept a connection to the webhooks.");
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                },
            }
        };
        let Some(stream) = stream else { break };
        // Nagle's algorithm would delay small answers.
        let _ = stream.set_nodelay(true);
        let (acceptor, answering, watcher) = (acceptor.clone(), answering.clone(), graceful.watcher());
        let shutdown = shutdown.clone();
        connections.spawn(async move {
            let _permit = permit;
            let handshake = tokio::time::timeout(limits.patience, acceptor.accept(stream));
            let stream = match shutdown.run_until_cancelled(handshake).await {
                None => return,
                Some(Ok(Ok(stream))) => stream,
                // An API server that does not trust the CA yet fails here. The readiness check says why.
                Some(Ok(Err(error))) => {
                    return tracing::debug!(%error, "A TLS handshake with the webhooks failed.");
                }
                Some(Err(_)) => return tracing::debug!("A TLS handshake with the webhooks took too long."),
            };
            connection(stream, answering, limits, watcher).await;
        });
    }
    drop(listener);
    if tokio::time::timeout(limits.drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("Aborted the webhook requests that did not end in time.");
    }
    connections.shutdown().await;
}

async fn connection(
    stream: TlsStream<TcpStream>,
    answering: Arc<WebhookHandler>,
    limits: Limits,
    watcher: Watcher,
) {
    let newer = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let stream = TokioIo::new(stream);
    let activity = Arc::new(Activity { open: AtomicUsize::new(0), last: Mutex::new(Instant::now()) });
    let seen = activity.clone();
    let service = service_fn(move |request| {
        let (answering, open) = (answering.clone(), OpenRequest::new(&seen));
        async move {
            let _open = open;
            Ok::<_, Infallible>(answering.answer(request).await)
        }
    });
    let ended = async {
        if newer {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder
                .timer(TokioTimer::new())
                .max_concurrent_streams(STREAMS)
                .keep_alive_interval(limits.idle)
                .keep_alive_timeout(limits.patience);
            watcher.watch(builder.serve_connection(stream, service)).await
        } else {
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(limits.idle);
            watcher.watch(builder.serve_connection(stream, service)).await
        }
    };
    tokio::select! {
        ended = ended => if let Err(error) = ended {
            tracing::debug!(%error, "A connection to the webhooks ended.");
        },
        () = activity.idle_for(limits.idle) => tracing::debug!("Closed an idle connection to the webhooks."),
    }
}

/// The activity of one connection, to find idle ones.
struct Activity {
    /// Requests without an answer yet.
    open: AtomicUsize,
    /// When a request last began or ended.
    last: Mutex<Instant>,
}

/// A request without an answer yet. Dropping it records the end.
struct OpenRequest(Arc<Activity>);

// === impl Activity ===

impl Activity {
    /// Returns when no request, not even part of one, arrived for this long.
    async fn idle_for(&self, idle: Duration) {
        loop {
            let last = *self.last.lock();
            let busy = self.open.load(Ordering::Relaxed) > 0;
            if !busy && last.elapsed() >= idle {
                return;
            }
            tokio::time::sleep(if busy { idle } else { idle.saturating_sub(last.elapsed()) }).await;
        }
    }
}

// === impl OpenRequest ===

impl OpenRequest {
    fn new(activity: &Arc<Activity>) -> Self {
        activity.open.fetch_add(1, Ordering::Relaxed);
        *activity.last.lock() = Instant::now();
        Self(activity.clone())
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        *self.0.last.lock() = Instant::now();
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
