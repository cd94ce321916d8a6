//! Accepts connections.

use std::{convert::Infallible, sync::Arc, time::Duration};

use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto::Builder, graceful::GracefulShutdown},
};
use longboat_accept::FramingStream;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::proxy::{Arrival, Proxy};

/// How long a client may take to send the head of a request, so that idle connections do not accumulate.
const HEADER_TIMEOUT: Duration = Duration::from_mins(1);

/// The most connections at a time: enough for the clients of one machine, and far below the number of its ports.
const CONNECTIONS: usize = 16_384;

/// How long running requests may continue after the shutdown.
const DRAIN: Duration = Duration::from_secs(2);

/// Serves until `shutdown`, then lets running requests finish for a short time.
pub(crate) async fn run(listener: TcpListener, proxy: Arc<Proxy>, shutdown: CancellationToken) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let connections = GracefulShutdown::new();
    let port = listener.local_addr().map(|address| address.port()).unwrap_or_default();
    let connection = |stream, peer| {
        let proxy = proxy.clone();
        let arrival = Arrival { peer, port };
        let service = service_fn(move |request| {
            let (proxy, arrival) = (proxy.clone(), arrival.clone());
            async move { Ok::<_, Infallible>(proxy.handle(request, &arrival).await) }
        });
        let connection = connections
            .watch(builder.serve_connection(TokioIo::new(FramingStream::new(stream)), service).into_owned());
        async move {
            if let Err(error) = connection.await {
                tracing::debug!(error, "A client connection ended early.");
            }
        }
    };
    let _open = longboat_accept::until(&shutdown, listener, CONNECTIONS, connection).await;
    let _ = tokio::time::timeout(DRAIN, connections.shutdown()).await;
}
