//! The server, which is the processor's side.

mod connection;
mod http2;
mod limits;
mod options;
mod outbox;
mod processor;

use std::{io, sync::Arc};

use longboat_accept::ConnectionThreads;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use connection::connection;
pub(crate) use http2::fuzzing;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use http2::peer;
pub use limits::Limits;
pub(crate) use limits::{CountedStream, MAX_STREAMS, StreamCount};
use options::ServerState;
pub use options::{HealthCheck, ServerOptions};
pub use outbox::Outbox;
use processor::HEALTH_PATH;
pub(crate) use processor::PATH;
pub use processor::{Exchange, Processor};

use crate::message::Incoming;

/// Serves a processor until `shutdown`, then lets streams in flight end within the grace period.
///
/// # Errors
///
/// If a thread for connections cannot be started.
pub async fn serve<P: Processor>(
    listener: TcpListener,
    processor: Arc<P>,
    options: ServerOptions,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let threads = ConnectionThreads::start("ext-proc", options.threads)?;
    let (grace, limit) = (options.grace, options.limits.connections);
    let shared = Arc::new(ServerState::new(processor, options));
    let until = shutdown.clone();
    let carry = move |_, stream, peer| connection(stream, peer, Arc::clone(&shared), until.clone());
    let mut open = threads.until(&shutdown, listener, limit, carry).await;
    // The port is closed by now, so that the next connection of a proxy goes to another replica.
    longboat_accept::drain(&mut open, grace).await;
    Ok(())
}

/// Serves health checks until `shutdown`, on a port without ext_proc.
pub async fn serve_health(
    listener: TcpListener,
    check: HealthCheck,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let options = ServerOptions { health: Some(check), ..ServerOptions::default() };
    serve(listener, Arc::new(NoProcessor), options, shutdown).await
}

/// The processor of a port without ext_proc.
struct NoProcessor;

impl Processor for NoProcessor {
    type Exchange = Self;

    fn open(&self) -> Self {
        Self
    }

    fn exists(&self) -> bool {
        false
    }
}

impl Exchange for NoProcessor {
    fn handle(&mut self, _: Incoming, _: &mut Outbox) {}
}
