//! The options of a server, and what its connections share.

use std::{sync::Arc, time::Duration};

use longboat_accept::Budget;

use super::limits::{Limits, StreamCount};

/// The memory of all streams, unless the server's owner has a budget.
const MEMORY: usize = 256 << 20;

/// Answers a health check of the service with this name: whether it serves.
pub type HealthCheck = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Options of a server.
pub struct ServerOptions {
    /// The TLS configuration (ALPN `h2`); `None` for plaintext HTTP/2 with prior knowledge.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// The longest message to accept, in bytes. A longer message ends the stream with an error.
    pub max_receive_bytes: usize,
    /// The longest message to send, in bytes.
    pub max_send_bytes: usize,
    /// How long streams in flight may take to end after a shutdown.
    pub grace: Duration,
    /// The limits on callers.
    pub limits: Limits,
    /// The memory of messages that have not come whole, of answers that wait for the proxy's window, and of output that the
    /// proxy does not read. The processor may count what it holds in the same budget.
    pub memory: Arc<Budget>,
    /// Answers health checks (`grpc.health.v1`) on the same port, if there are any.
    pub health: Option<HealthCheck>,
    /// The number of threads over which connections are spread. Each has its own runtime, so a stream never has to notify
    /// another thread. With 0, the caller's runtime serves the connections.
    pub threads: usize,
}

impl Default for ServerOptions {
    /// Plaintext, gRPC's usual limits (4 MiB received, any size sent), the usual limits of callers, 256 MiB of memory, no grace
    /// period, no health checks, no threads.
    fn default() -> Self {
        Self {
            tls: None,
            max_receive_bytes: 4 << 20,
            max_send_bytes: usize::MAX,
            grace: Duration::ZERO,
            limits: Limits::default(),
            memory: Budget::new(MEMORY),
            health: None,
            threads: 0,
        }
    }
}

impl std::fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerOptions")
            .field("tls", &self.tls.is_some())
            .field("max_receive_bytes", &self.max_receive_bytes)
            .field("max_send_bytes", &self.max_send_bytes)
            .field("grace", &self.grace)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

/// The state that all connections of a server share.
pub(super) struct ServerState<P> {
    pub(super) processor: Arc<P>,
    pub(super) options: ServerOptions,
    /// The number of open streams.
    pub(super) stream_count: StreamCount,
}

impl<P> ServerState<P> {
    pub(super) fn new(processor: Arc<P>, options: ServerOptions) -> Self {
        Self { processor, options, stream_count: StreamCount::default() }
    }
}
