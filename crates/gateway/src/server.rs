//! Accepting connections.

use std::{convert::Infallible, sync::Arc, time::Duration};

use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto::Builder, graceful::GracefulShutdown},
};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::proxy::Proxy;

/// A client that has connected must send its request's head within this time, so that idle sockets do not pile up.
const HEADER_TIMEOUT: Duration = Duration::from_mins(1);

/// How long running requests may go on after a stop was asked for.
const DRAIN: Duration = Duration::from_secs(2);

/// Serves until `shutdown`, then lets running requests finish for a moment.
pub(crate) async fn run(listener: TcpListener, proxy: Arc<Proxy>, shutdown: CancellationToken) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let connections = GracefulShutdown::new();
    let mut tasks = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = tasks.join_next() => continue,
            () = shutdown.cancelled() => break,
        };
        let Ok((stream, peer)) = accepted else {
            // Out of file descriptors, most likely: let some connections end first.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // Single tokens are small; they must not wait for acknowledgements.
        let _ = stream.set_nodelay(true);
        let proxy = proxy.clone();
        let service = service_fn(move |request| {
            let proxy = proxy.clone();
            async move { Ok::<_, Infallible>(proxy.handle(request, peer).await) }
        });
        let connection =
            connections.watch(builder.serve_connection(TokioIo::new(stream), service).into_owned());
        tasks.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error, "A client connection ended early.");
            }
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(DRAIN, connections.shutdown()).await;
}
