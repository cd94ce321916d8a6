//! The server, which is the processor's side.

mod connection;
mod http2;
mod limits;
mod options;
mod outbox;
mod processor;
mod runtimes;
mod tonic;

use std::{sync::Arc, time::Duration};

use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::sync::CancellationToken;

pub(crate) use http2::fuzzing;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use http2::peer;
pub use limits::Limits;
pub(crate) use limits::{CountedStream, MAX_STREAMS, StreamCount};
use options::Shared;
pub use options::{ServerOptions, Transport};
pub use outbox::Outbox;
pub(crate) use processor::PATH;
pub use processor::{Exchange, Processor};
use runtimes::ConnectionRuntimes;

use crate::{error::ServeError, message::Incoming};

/// Serves a processor until `shutdown`, then lets streams in flight end within the grace period.
pub async fn serve<P: Processor>(
    listener: TcpListener,
    processor: Arc<P>,
    options: ServerOptions,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let threads = options.threads;
    let shared = Arc::new(Shared::new(processor, options));
    let homes = ConnectionRuntimes::start(threads, &shared, &shutdown)?;
    let room = Arc::new(Semaphore::new(shared.options.limits.connections));
    let accepted = accept(&listener, &homes, &room, &shutdown).await;
    drop(listener);
    homes.end().await;
    accepted
}

/// Serves other gRPC services until `shutdown`, with the same limits, on a port without ext_proc.
pub async fn serve_others(
    listener: TcpListener,
    others: ::tonic::service::Routes,
    limits: Limits,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let options = ServerOptions { others: Some(others), limits, ..ServerOptions::default() };
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

async fn accept<P: Processor>(
    listener: &TcpListener,
    homes: &ConnectionRuntimes<P>,
    room: &Arc<Semaphore>,
    shutdown: &CancellationToken,
) -> Result<(), ServeError> {
    loop {
        let coming = async {
            let permit = Arc::clone(room).acquire_owned().await;
            (listener.accept().await, permit)
        };
        // The semaphore is never closed.
        let Some((accepted, Ok(permit))) = shutdown.run_until_cancelled(coming).await else { return Ok(()) };
        match accepted {
            Ok((stream, _)) => homes.take_in(stream, permit).await,
            Err(error) if is_transient(&error) => {
                tracing::warn!(%error, "Cannot accept a connection.");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error) => return Err(ServeError::Accept(error)),
        }
    }
}

/// Whether an error leaves the listener usable: the process is out of file descriptors or memory for the moment, or the peer
/// left early.
fn is_transient(error: &std::io::Error) -> bool {
    !matches!(error.kind(), std::io::ErrorKind::InvalidInput | std::io::ErrorKind::NotConnected)
}
