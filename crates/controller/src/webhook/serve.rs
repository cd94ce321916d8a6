//! Connections to the webhook server.

use std::{convert::Infallible, sync::Arc, time::Duration};

use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{
        conn::auto,
        graceful::{GracefulShutdown, Watcher},
    },
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::{answer::Answering, settings::Limits};

/// Requests at once on one connection; Go's clients open another one above it.
const STREAMS: u32 = 250;

/// Serves until `shutdown`; then takes no new connection and lets open requests end for a while.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    answering: Answering,
    limits: Limits,
    shutdown: CancellationToken,
) {
    let (acceptor, answering) = (TlsAcceptor::from(tls), Arc::new(answering));
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(limits.connections));
    let mut connections = JoinSet::new();
    loop {
        let permit = tokio::select! {
            () = shutdown.cancelled() => break,
            permit = Arc::clone(&room).acquire_owned() => permit,
        };
        let Ok(permit) = permit else { break };
        let stream = loop {
            tokio::select! {
                () = shutdown.cancelled() => break None,
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => break Some(stream),
                    Err(error) => {
                        // Out of descriptors, or a client that left at once: neither ends the server.
                        tracing::debug!(%error, "Cannot accept a connection to the webhooks.");
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                },
            }
        };
        let Some(stream) = stream else { break };
        // Small answers must not wait for more.
        let _ = stream.set_nodelay(true);
        let (acceptor, answering, watcher) = (acceptor.clone(), answering.clone(), graceful.watcher());
        connections.spawn(async move {
            let _permit = permit;
            connection(stream, &acceptor, answering, limits, watcher).await;
        });
    }
    drop(listener);
    if tokio::time::timeout(limits.drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("Cut the requests to the webhooks that did not end in time.");
    }
    connections.shutdown().await;
}

async fn connection(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    answering: Arc<Answering>,
    limits: Limits,
    watcher: Watcher,
) {
    let stream = match tokio::time::timeout(limits.patience, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        // An API server that does not trust us yet says so here; readiness tells why.
        Ok(Err(error)) => return tracing::debug!(%error, "A TLS handshake with the webhooks failed."),
        Err(_) => return tracing::debug!("A TLS handshake with the webhooks took too long."),
    };
    let service = service_fn(move |request| {
        let answering = answering.clone();
        async move { Ok::<_, Infallible>(answering.answer(request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.idle);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(limits.idle)
        .keep_alive_timeout(limits.patience);
    if let Err(error) = watcher.watch(builder.serve_connection(TokioIo::new(stream), service)).await {
        tracing::debug!(%error, "A connection to the webhooks ended.");
    }
}
