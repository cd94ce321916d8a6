//! The processor's side.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::{Ready, ready},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{Stream, future::BoxFuture};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming, codec::CompressionEncoding, server::Grpc};
use tonic_prost::ProstCodec;

use crate::{
    client::{CONNECTION_WINDOW, STREAM_WINDOW},
    error::ServeError,
    message::{Action, Incoming, MAX_BODY_CHUNK, Reply},
    wire::{ProcessingRequest, ProcessingResponse},
};

const PATH: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";

/// A stream lives as long as its HTTP response, so one connection carries as many as requests are in flight
/// there; hyper's own limit of 200 would queue the rest.
const MAX_STREAMS: u32 = 1 << 16;

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

    /// Goes on with what does not wait for the proxy, for example a place in a queue. It is called whenever the stream is
    /// polled, so it must return at once, and arrange to be woken where it still waits.
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
    pub others: Option<tonic::service::Routes>,
}

impl Default for ServerOptions {
    /// Plaintext, gRPC's usual limits (4 MiB received, any size sent), no grace, nothing else on the port.
    fn default() -> Self {
        Self {
            tls: None,
            max_receive_bytes: 4 << 20,
            max_send_bytes: usize::MAX,
            grace: Duration::ZERO,
            others: None,
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
            .finish_non_exhaustive()
    }
}

/// Serves a processor until `shutdown`, then lets streams in flight end within the grace.
pub async fn serve<P: Processor>(
    listener: TcpListener,
    processor: Arc<P>,
    options: ServerOptions,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let grace = options.grace;
    let service = Service { processor, options: Arc::new(options) };
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            () = shutdown.cancelled() => break,
            // Reaps connections that ended; with none, `None` disables the branch for this turn.
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) if is_transient(&error) => {
                    tracing::warn!(%error, "Cannot accept a connection.");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
                Err(error) => return Err(ServeError::Accept(error)),
            },
        };
        connections.spawn(connection(stream, service.clone(), shutdown.clone()));
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(grace, drained).await.is_err() {
        connections.shutdown().await;
    }
    Ok(())
}

/// Out of file descriptors or memory for the moment, or the peer left early: the listener itself is fine.
fn is_transient(error: &std::io::Error) -> bool {
    !matches!(error.kind(), std::io::ErrorKind::InvalidInput | std::io::ErrorKind::NotConnected)
}

async fn connection<P: Processor>(stream: TcpStream, service: Service<P>, shutdown: CancellationToken) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "Cannot set TCP_NODELAY.");
    }
    match &service.options.tls {
        None => http2(TokioIo::new(stream), service, shutdown).await,
        Some(tls) => {
            let acceptor = tokio_rustls::TlsAcceptor::from(Arc::clone(tls));
            let handshake = tokio::select! {
                handshake = acceptor.accept(stream) => handshake,
                () = shutdown.cancelled() => return,
            };
            match handshake {
                Ok(stream) => http2(TokioIo::new(stream), service, shutdown).await,
                Err(error) => tracing::debug!(%error, "TLS handshake failed."),
            }
        }
    }
}

async fn http2<I, P>(io: I, service: Service<P>, shutdown: CancellationToken)
where
    I: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    P: Processor,
{
    let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(MAX_STREAMS)
        .serve_connection(io, service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "Connection ended.");
    }
}

/// Routes by path, and starts the gRPC stream.
struct Service<P> {
    processor: Arc<P>,
    options: Arc<ServerOptions>,
}

impl<P> Clone for Service<P> {
    fn clone(&self) -> Self {
        Self { processor: Arc::clone(&self.processor), options: Arc::clone(&self.options) }
    }
}

impl<P: Processor> hyper::service::Service<http::Request<hyper::body::Incoming>> for Service<P> {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn call(&self, request: http::Request<hyper::body::Incoming>) -> Self::Future {
        if request.uri().path() == PATH {
            let mut grpc = Grpc::new(ProstCodec::<ProcessingResponse, ProcessingRequest>::default())
                .accept_compressed(CompressionEncoding::Gzip)
                .max_decoding_message_size(self.options.max_receive_bytes)
                .max_encoding_message_size(self.options.max_send_bytes);
            let open = Open(Arc::clone(&self.processor));
            return Box::pin(async move { Ok(grpc.streaming(open, request).await) });
        }
        if let Some(others) = &self.options.others {
            let mut others = others.clone();
            return Box::pin(async move {
                use tower_service::Service as _;
                others.call(request.map(tonic::body::Body::new)).await
            });
        }
        Box::pin(ready(Ok(Status::unimplemented("no such method").into_http())))
    }
}

struct Open<P>(Arc<P>);

impl<P: Processor> tower_service::Service<tonic::Request<Streaming<ProcessingRequest>>> for Open<P> {
    type Response = tonic::Response<Replies<P::Exchange>>;
    type Error = Status;
    type Future = Ready<Result<Self::Response, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: tonic::Request<Streaming<ProcessingRequest>>) -> Self::Future {
        if !self.0.is_ready() {
            return ready(Err(Status::unavailable("not ready yet")));
        }
        ready(Ok(tonic::Response::new(Replies {
            incoming: request.into_inner(),
            exchange: self.0.open(),
            out: Outbox::default(),
        })))
    }
}

/// The answering direction of a stream: pulls events, runs the exchange, yields what it queued.
struct Replies<E> {
    incoming: Streaming<ProcessingRequest>,
    exchange: E,
    out: Outbox,
}

impl<E: Exchange> Stream for Replies<E> {
    type Item = Result<ProcessingResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(message) = this.out.queue.pop_front() {
                return Poll::Ready(Some(Ok(message)));
            }
            if this.out.finished {
                return Poll::Ready(None);
            }
            this.exchange.poll(context, &mut this.out);
            if this.out.finished || !this.out.queue.is_empty() {
                continue;
            }
            match std::task::ready!(Pin::new(&mut this.incoming).poll_next(context)) {
                Some(Ok(message)) => {
                    if let Some(incoming) = Incoming::from_wire(message) {
                        this.exchange.handle(incoming, &mut this.out);
                    }
                }
                Some(Err(status)) => {
                    this.out.finished = true;
                    // The proxy gave the request up: nobody reads a status.
                    if status.code() != tonic::Code::Cancelled {
                        return Poll::Ready(Some(Err(Status::unknown(status.message()))));
                    }
                }
                None => return Poll::Ready(None),
            }
        }
    }
}
