//! The server, which is the processor's side.

use std::{collections::VecDeque, sync::Arc, task::Context, time::Duration};

use bytes::Bytes;
use longboat_accept::Budget;
use tokio::{
    io::{AsyncRead, AsyncWrite, BufReader},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::sync::CancellationToken;

use crate::{
    error::ServeError,
    message::{Action, Incoming, MAX_BODY_CHUNK, Reply},
};

mod http2;
mod limits;
mod runtimes;
mod tonic;

pub(crate) use http2::fuzzing;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use http2::peer;
pub use limits::Limits;
pub(crate) use limits::{CountedStream, StreamCount};
use runtimes::ConnectionRuntimes;

pub(crate) const PATH: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";

/// How long a caller may take for the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The most streams per connection. A stream lives as long as its HTTP response, so a proxy with more requests in flight opens
/// more connections, as Envoy does.
pub(crate) const MAX_STREAMS: u32 = 256;

/// The memory of all streams, unless the server's owner has a budget.
const MEMORY: usize = 256 << 20;

/// The message of the status for a stream beyond the limit.
const TOO_MANY_STREAMS: &str = "too many streams";

/// The most bytes of fields in the headers of a stream, counted as in the standard of HPACK. A proxy's stream has a few
/// hundred.
const MAX_FIELDS: u32 = 64 << 10;

/// The most bytes to read from a socket at once. A TLS session reads 4 KiB at a time, which would mean a hundred system
/// calls for a long prompt.
const READ_CHUNK_BYTES: usize = 64 << 10;

/// The most bytes that a TLS session encrypts before it writes them: all that the connection writes at once. The usual limit
/// of 64 KiB means three system calls instead of one.
const ENCRYPTED: usize = 256 << 10;

/// A processor of HTTP requests, which creates one [`Exchange`] per stream.
pub trait Processor: Send + Sync + 'static {
    /// The state of one HTTP request.
    type Exchange: Exchange;

    /// Called when a proxy opens a stream.
    fn open(&self) -> Self::Exchange;

    /// Whether the processor can answer streams yet. Until then, streams end with the gRPC status `UNAVAILABLE`. A proxy can
    /// then go on without the processor, which an error response to the client would prevent.
    fn is_ready(&self) -> bool {
        true
    }

    /// Called when a stream is refused because as many are open as [`Limits::streams`] allows.
    fn too_many_streams(&self) {}

    /// Whether there is a processor at all. Without one, the port has other services only.
    fn exists(&self) -> bool {
        true
    }
}

/// The state machine of one HTTP request. It runs where the stream is polled, so it must not block. It is dropped when the
/// stream ends for any reason, so it should release the request's resources in `Drop`.
pub trait Exchange: Send + Unpin + 'static {
    /// Handles an event, and adds the answers to `out`.
    fn handle(&mut self, incoming: Incoming, out: &mut Outbox);

    /// Called when the stream ends with this gRPC status. Not called if the proxy cancels the stream.
    fn ended(&mut self, status: u8) {
        let _ = status;
    }

    /// Whether the exchange waits for something other than the proxy, and so needs to be polled.
    fn waits(&self) -> bool {
        false
    }

    /// Makes progress that does not depend on the proxy, for example on a place in a queue. The server may call this at any
    /// time. It must return at once, and register the waker if it still waits.
    fn poll(&mut self, context: &mut Context<'_>, out: &mut Outbox) {
        let _ = (context, out);
    }
}

/// The answers of an exchange, in order. Answers that are added together leave in one write if they fit.
#[derive(Debug, Default)]
pub struct Outbox {
    queue: VecDeque<Reply>,
    finished: bool,
}

impl Outbox {
    /// Adds an answer. A body that is longer than [`MAX_BODY_CHUNK`] is sent in several messages. The last message has the
    /// end of stream and the metadata.
    pub fn push(&mut self, reply: impl Into<Reply>) {
        let mut reply = reply.into();
        match &mut reply.action {
            Action::RequestBody { body, .. } => {
                while let Some(piece) = cut(body) {
                    self.queue.push_back(Action::RequestBody { body: piece, end_of_stream: false }.into());
                }
            }
            Action::ResponseBody { body, .. } => {
                while let Some(piece) = cut(body) {
                    self.queue.push_back(Action::ResponseBody { body: piece, end_of_stream: false }.into());
                }
            }
            _ => {}
        }
        self.queue.push_back(reply);
    }

    /// Takes the next answer.
    pub(crate) fn pop(&mut self) -> Option<Reply> {
        self.queue.pop_front()
    }

    /// Whether no answer is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether the stream ends after the queued answers.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Returns the answers as a proxy will see them; for driving an exchange without a connection.
    pub fn into_replies(self) -> Vec<Reply> {
        self.queue.into_iter().filter_map(|reply| Reply::from_wire(reply.into_wire())).collect()
    }

    /// Ends the stream without an error after the queued answers. Must not be called before the request's body was returned:
    /// a proxy would send an empty body.
    pub fn finish(&mut self) {
        self.finished = true;
    }
}

fn cut(body: &mut Bytes) -> Option<Bytes> {
    (body.len() > MAX_BODY_CHUNK).then(|| body.split_to(MAX_BODY_CHUNK))
}

/// The HTTP/2 implementation of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Transport {
    /// Longboat's own HTTP/2, which only supports ext_proc.
    #[default]
    Lean,
    /// tonic over hyper, which also carries other gRPC services of the port. It is always used if there are such services.
    Tonic,
}

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
    /// Other gRPC services on the same port (health).
    pub others: Option<::tonic::service::Routes>,
    /// The HTTP/2 implementation.
    pub transport: Transport,
    /// The number of threads over which connections are spread. Each has its own runtime, so a stream never has to notify
    /// another thread. With 0, the caller's runtime serves the connections.
    pub threads: usize,
}

impl Default for ServerOptions {
    /// Plaintext, gRPC's usual limits (4 MiB received, any size sent), the usual limits of callers, 256 MiB of memory, no grace
    /// period, no other services, no threads.
    fn default() -> Self {
        Self {
            tls: None,
            max_receive_bytes: 4 << 20,
            max_send_bytes: usize::MAX,
            grace: Duration::ZERO,
            limits: Limits::default(),
            memory: Budget::new(MEMORY),
            others: None,
            transport: Transport::Lean,
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
struct Shared<P> {
    processor: Arc<P>,
    options: ServerOptions,
    /// The number of open streams.
    stream_count: StreamCount,
}

impl<P> Shared<P> {
    fn new(processor: Arc<P>, options: ServerOptions) -> Self {
        Self { processor, options, stream_count: StreamCount::default() }
    }

    fn uses_tonic(&self) -> bool {
        self.options.transport == Transport::Tonic || self.options.others.is_some()
    }
}

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

/// Serves a connection until it ends.
async fn connection<P: Processor>(stream: TcpStream, shared: Arc<Shared<P>>, shutdown: CancellationToken) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "Cannot set TCP_NODELAY.");
    }
    let Some(tls) = shared.options.tls.clone() else {
        return carry(stream, shared, shutdown).await;
    };
    let acceptor = tokio_rustls::TlsAcceptor::from(tls);
    let handshake = acceptor.accept(BufReader::with_capacity(READ_CHUNK_BYTES, stream));
    let handshake = tokio::time::timeout(HANDSHAKE, handshake);
    let Some(shaken) = shutdown.run_until_cancelled(handshake).await else { return };
    match shaken {
        Ok(Ok(mut stream)) => {
            if !shared.uses_tonic() {
                stream.get_mut().1.set_buffer_limit(Some(ENCRYPTED));
            }
            carry(stream, shared, shutdown).await;
        }
        Err(_) => tracing::debug!("A TLS handshake took too long."),
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed."),
    }
}

async fn carry<P: Processor>(
    io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    shared: Arc<Shared<P>>,
    shutdown: CancellationToken,
) {
    if shared.uses_tonic() {
        tonic::connection(io, shared, shutdown).await;
    } else {
        http2::connection(io, shared, shutdown).await;
    }
}
