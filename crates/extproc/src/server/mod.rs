//! The processor's side.

use std::{collections::VecDeque, sync::Arc, task::Context, time::Duration};

use bytes::Bytes;
use longboat_accept::Budget;
use tokio::{
    io::{AsyncRead, AsyncWrite, BufReader},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

use crate::{
    error::ServeError,
    message::{Action, Incoming, MAX_BODY_CHUNK, Reply},
    wire::ProcessingResponse,
};

mod homes;
mod http2;
mod tonic;

use homes::Homes;
pub use http2::connection_of;

const PATH: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";

/// The most bytes of messages that have not come whole. Proxies send pieces of some 50 KB, so this is enough for 5,000 streams.
const MAX_PARTIAL: usize = 256 << 20;

/// How long a caller may take to shake hands.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A stream lives as long as its HTTP response, so one connection carries as many as requests are in flight
/// there; hyper's own limit of 200 would queue the rest.
const MAX_STREAMS: u32 = 1 << 16;

/// Bytes that are read from a socket at once. A TLS session asks for 4 KiB at a time, which is a hundred system calls for a
/// long prompt.
const PIECE: usize = 64 << 10;

/// What processes HTTP requests: makes one [`Exchange`] per stream.
pub trait Processor: Send + Sync + 'static {
    /// The state of one HTTP request.
    type Exchange: Exchange;

    /// A proxy opened a stream.
    fn open(&self) -> Self::Exchange;

    /// Whether streams can be answered yet. Until then they end with gRPC status `UNAVAILABLE`, which lets a proxy do
    /// without the processor: an answer to the client would not.
    fn is_ready(&self) -> bool {
        true
    }
}

/// The state machine of one HTTP request. It runs where the stream is polled, so it must not block. It is dropped
/// when the stream ends, for whatever reason: release what the request holds in `Drop`.
pub trait Exchange: Send + Unpin + 'static {
    /// Something happened; put the answers into `out`.
    fn handle(&mut self, incoming: Incoming, out: &mut Outbox);

    /// The stream ends with this gRPC status. It is not called where the proxy gives the stream up.
    fn ended(&mut self, status: u8) {
        let _ = status;
    }

    /// Whether it waits for something other than the proxy, so that it has to be polled.
    fn waits(&self) -> bool {
        false
    }

    /// Goes on with what does not wait for the proxy, for example a place in a queue. It may be called at any time, so it must
    /// return at once, and arrange to be woken where it still waits.
    fn poll(&mut self, context: &mut Context<'_>, out: &mut Outbox) {
        let _ = (context, out);
    }
}

/// The answers of an exchange, in order. Those put in together leave in one write where they fit.
#[derive(Debug, Default)]
pub struct Outbox {
    queue: VecDeque<ProcessingResponse>,
    finished: bool,
}

impl Outbox {
    /// Adds an answer. A longer body than [`MAX_BODY_CHUNK`] is sent in several messages, the end of stream on
    /// the last; any metadata goes with the last too.
    pub fn push(&mut self, reply: impl Into<Reply>) {
        let mut reply = reply.into();
        match &mut reply.action {
            Action::RequestBody { body, .. } => {
                while let Some(piece) = cut(body) {
                    self.queue.push_back(
                        Reply::from(Action::RequestBody { body: piece, end_of_stream: false }).into_wire(),
                    );
                }
            }
            Action::ResponseBody { body, .. } => {
                while let Some(piece) = cut(body) {
                    self.queue.push_back(
                        Reply::from(Action::ResponseBody { body: piece, end_of_stream: false }).into_wire(),
                    );
                }
            }
            _ => {}
        }
        self.queue.push_back(reply.into_wire());
    }

    /// Whether the stream ends after what is queued.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// The answers as a proxy will see them; for driving an exchange without a connection.
    pub fn into_replies(self) -> Vec<Reply> {
        self.queue.into_iter().filter_map(Reply::from_wire).collect()
    }

    /// Ends the stream, without error, after what is queued. Never before the request's body was returned: a
    /// proxy would send an empty one.
    pub fn finish(&mut self) {
        self.finished = true;
    }
}

fn cut(body: &mut Bytes) -> Option<Bytes> {
    (body.len() > MAX_BODY_CHUNK).then(|| body.split_to(MAX_BODY_CHUNK))
}

/// What carries the streams of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Transport {
    /// Our own HTTP/2, which knows nothing but ext_proc.
    #[default]
    Lean,
    /// tonic over hyper, which also carries the other services of a port. Where there are some, it carries everything.
    Tonic,
}

/// How to serve.
pub struct ServerOptions {
    /// How connections are encrypted (ALPN `h2`); `None`: plaintext HTTP/2 with prior knowledge.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// The longest message to accept, in bytes; longer ones end the stream with an error.
    pub max_receive_bytes: usize,
    /// The longest message to send, in bytes.
    pub max_send_bytes: usize,
    /// After shutdown was asked for: how long streams in flight may take to end.
    pub grace: Duration,
    /// Further gRPC services on the same port (health).
    pub others: Option<::tonic::service::Routes>,
    /// What carries the streams.
    pub transport: Transport,
    /// The threads that connections are spread over, each with a runtime of its own, so that no stream ever wakes another
    /// thread; 0: the caller's runtime serves them.
    pub threads: usize,
}

impl Default for ServerOptions {
    /// Plaintext, gRPC's usual limits (4 MiB received, any size sent), no grace, nothing else on the port, no threads.
    fn default() -> Self {
        Self {
            tls: None,
            max_receive_bytes: 4 << 20,
            max_send_bytes: usize::MAX,
            grace: Duration::ZERO,
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

/// What the connections of a server share.
struct Shared<P> {
    processor: Arc<P>,
    options: ServerOptions,
    /// What all streams hold of messages that have not come whole.
    partial: Arc<Budget>,
}

impl<P> Shared<P> {
    fn new(processor: Arc<P>, options: ServerOptions) -> Self {
        Self { processor, options, partial: Budget::new(MAX_PARTIAL) }
    }
}

/// Serves a processor until `shutdown`, then lets streams in flight end within the grace.
pub async fn serve<P: Processor>(
    listener: TcpListener,
    processor: Arc<P>,
    options: ServerOptions,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let threads = options.threads;
    let shared = Arc::new(Shared::new(processor, options));
    let homes = Homes::start(threads, &shared, &shutdown)?;
    let accepted = accept(&listener, &homes, &shutdown).await;
    drop(listener);
    homes.end().await;
    accepted
}

async fn accept<P: Processor>(
    listener: &TcpListener,
    homes: &Homes<P>,
    shutdown: &CancellationToken,
) -> Result<(), ServeError> {
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => homes.take_in(stream).await,
            Err(error) if is_transient(&error) => {
                tracing::warn!(%error, "Cannot accept a connection.");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error) => return Err(ServeError::Accept(error)),
        }
    }
}

/// Out of file descriptors or memory for the moment, or the peer left early: the listener itself is fine.
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
    let handshake = tokio::select! {
        handshake = tokio::time::timeout(
            HANDSHAKE,
            acceptor.accept(BufReader::with_capacity(PIECE, stream)),
        ) => handshake,
        () = shutdown.cancelled() => return,
    };
    match handshake {
        Ok(Ok(stream)) => carry(stream, shared, shutdown).await,
        Err(_) => tracing::debug!("A TLS handshake took too long."),
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed."),
    }
}

async fn carry<P: Processor>(
    io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    shared: Arc<Shared<P>>,
    shutdown: CancellationToken,
) {
    if shared.options.transport == Transport::Tonic || shared.options.others.is_some() {
        tonic::connection(io, shared, shutdown).await;
    } else {
        http2::connection(io, shared, shutdown).await;
    }
}
