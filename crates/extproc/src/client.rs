//! The client, which is the proxy's side: one stream per HTTP request.

use std::{
    future::{Future, poll_fn},
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures::future::BoxFuture;
use http::uri::{PathAndQuery, Scheme};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::{net::TcpStream, sync::mpsc, task::JoinHandle, time::Instant};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Streaming, client::Grpc};
use tonic_prost::ProstCodec;

use crate::{
    error::ClientError,
    local::LocalStream,
    message::{Incoming, Reply},
    server::{CountedStream, MAX_STREAMS, PATH, Processor, StreamCount},
    windows::{CONNECTION_WINDOW, STREAM_WINDOW},
    wire::{ProcessingRequest, ProcessingResponse},
};

/// How many messages may wait to be written on one stream. HTTP/2 flow control limits the rate. A few messages let headers
/// and the first chunks leave in one write.
const MAX_OUTGOING: usize = 8;

/// How long the connection attempt may take; other requests wait for it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection with open streams may be silent before it is pinged. A processor may hold a request back for long, and one whose
/// process stands still would hold it for ever. Servers of grpc-go end a connection that is pinged more than once in five minutes.
const PING_INTERVAL: Duration = Duration::from_secs(5 * 60 + 10);
/// How long the other machine may be silent, to a ping or to the packets of TCP. Its system answers to packets even if the process
/// stands still, so that a machine that is gone is noticed earlier.
const SILENCE_LIMIT: Duration = Duration::from_secs(20);

/// A client of one processor. Cheap to clone. All clones share HTTP/2 connections. [`Client::open`] creates one if there is
/// none, or if each has its most streams or has broken.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    address: SocketAddr,
    target: Arc<str>,
    origin: http::Uri,
    tls: Option<tokio_rustls::TlsConnector>,
    // An async lock, held while connecting, so that a burst of requests creates one connection.
    live: tokio::sync::Mutex<Connections>,
}

#[derive(Default)]
struct Connections {
    live: Vec<Connection>,
    /// When the last attempt to connect failed, and why. Who has waited for it shares its result: otherwise, requests to a processor that
    /// does not answer would wait for one attempt after the other.
    failed: Option<(Instant, String)>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("target", &self.inner.target).finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client of the processor at this address, without connecting yet. With `tls`, the connection is encrypted as
    /// configured (proxies do not verify a picker's certificate: `longboat_tls::insecure_client_config`, ALPN `h2`). Without
    /// it, the connection is plaintext HTTP/2 with prior knowledge.
    pub fn new(address: SocketAddr, tls: Option<Arc<rustls::ClientConfig>>) -> Self {
        let target: Arc<str> = address.to_string().into();
        let mut origin = http::uri::Parts::default();
        origin.scheme = Some(if tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP });
        origin.authority = target.parse().ok();
        origin.path_and_query = Some(PathAndQuery::from_static("/"));
        // All three parts are present, so this is always a valid URI. The default value would only mean a request without
        // authority.
        let origin = http::Uri::from_parts(origin).unwrap_or_default();
        Self {
            inner: Arc::new(Inner {
                address,
                target,
                origin,
                tls: tls.map(tokio_rustls::TlsConnector::from),
                live: tokio::sync::Mutex::default(),
            }),
        }
    }

    /// Opens the stream for one HTTP request. Connects first if there is no live connection. Does not wait for the
    /// processor's answer: if the processor refuses the stream, [`Exchange::receive`] returns the error.
    pub async fn open(&self) -> Result<Exchange, ClientError> {
        let (connection, counted) = self.connection().await?;
        let broken = Arc::clone(&connection.broken);
        let (outgoing, queue) = mpsc::channel(MAX_OUTGOING);
        let mut grpc = Grpc::with_origin(connection, self.inner.origin.clone())
            // The processor sends back at most what the client has sent.
            .max_decoding_message_size(usize::MAX);
        let mut opening: BoxFuture<'static, Result<Streaming<ProcessingResponse>, tonic::Status>> =
            Box::pin(async move {
                grpc.ready().await.map_err(|error| tonic::Status::unavailable(error.to_string()))?;
                grpc.streaming(
                    tonic::Request::new(ReceiverStream::new(queue)),
                    PathAndQuery::from_static(PATH),
                    ProstCodec::<ProcessingRequest, ProcessingResponse>::default(),
                )
                .await
                .map(tonic::Response::into_inner)
            });
        // The first poll hands the request to the connection, which then drives it. The client does not wait for the
        // response headers: grpc-go sends them only with its first message.
        let state = match futures::poll!(opening.as_mut()) {
            Poll::Ready(opened) => {
                State::Open(opened.map_err(|status| self.inner.status(status)).map(Box::new)?)
            }
            Poll::Pending => State::Opening(opening),
        };
        Ok(Exchange {
            sender: Sender(EventSink::Remote { queue: outgoing, first: true, client: self.clone() }),
            receiver: Receiver(Replies::Remote(RemoteReplies {
                state,
                broken,
                client: self.clone(),
                _counted: counted,
            })),
        })
    }

    /// Returns a connection with room for a stream, which counts until the returned count is dropped.
    async fn connection(&self) -> Result<(Connection, CountedStream), ClientError> {
        let asked = Instant::now();
        let mut connections = self.inner.live.lock().await;
        let Connections { live, failed } = &mut *connections;
        // Streams in flight keep their clones of a connection that is removed.
        live.retain(|connection| {
            !connection.requests.is_closed() && !connection.broken.load(Ordering::Acquire)
        });
        for connection in &*live {
            if let Some(counted) = connection.streams.take(MAX_STREAMS as usize) {
                return Ok((connection.clone(), counted));
            }
        }
        // An attempt that failed before this request asked says nothing about now.
        if let Some((at, reason)) = failed
            && *at >= asked
        {
            return Err(self.inner.refused(reason.clone()));
        }
        // Few requests connect; the others need no room for this future.
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, Box::pin(self.inner.connect()));
        let connected = connecting.await.unwrap_or_else(|_| Err(self.inner.refused("no answer in time")));
        let connection = connected.inspect_err(|error| {
            let reason =
                std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
            *failed = Some((Instant::now(), reason));
        })?;
        live.push(connection.clone());
        let counted = connection.streams.take(MAX_STREAMS as usize);
        counted.map(|counted| (connection, counted)).ok_or_else(|| self.inner.refused("no room for a stream"))
    }
}

impl Inner {
    async fn connect(&self) -> Result<Connection, ClientError> {
        let stream = TcpStream::connect(self.address).await.map_err(|error| self.refused(error))?;
        stream
            .set_nodelay(true)
            .and_then(|()| notice_lost_machine(&stream))
            .map_err(|error| self.refused(error))?;
        match &self.tls {
            None => self.handshake(TokioIo::new(stream)).await,
            Some(tls) => {
                let name = ServerName::IpAddress(self.address.ip().into());
                let stream = tls.connect(name, stream).await.map_err(|error| self.refused(error))?;
                self.handshake(TokioIo::new(stream)).await
            }
        }
    }

    async fn handshake<I>(&self, io: I) -> Result<Connection, ClientError>
    where
        I: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    {
        let (requests, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(SILENCE_LIMIT)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(io)
            .await
            .map_err(|error| self.refused(error))?;
        let target = Arc::clone(&self.target);
        let driver = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%target, %error, "Connection to the processor ended.");
            }
        });
        Ok(Connection {
            requests,
            streams: StreamCount::default(),
            broken: Arc::default(),
            _driver: Arc::new(Driver(driver)),
        })
    }

    fn refused(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ClientError {
        ClientError::Connect { target: self.target.to_string(), source: source.into() }
    }

    fn status(&self, status: tonic::Status) -> ClientError {
        let target = self.target.to_string();
        // tonic also turns transport errors into a status, with the error as its source.
        if std::error::Error::source(&status).is_some() {
            return ClientError::Broken { target, source: Box::new(status) };
        }
        ClientError::Status { target, code: status.code() as i32, message: status.message().to_owned() }
    }
}

/// Lets a connection fail if the other machine does not answer to packets.
fn notice_lost_machine(stream: &TcpStream) -> std::io::Result<()> {
    let socket = SockRef::from(stream);
    let probes = TcpKeepalive::new().with_time(SILENCE_LIMIT).with_interval(SILENCE_LIMIT);
    socket.set_tcp_keepalive(&probes)?;
    socket.set_tcp_user_timeout(Some(SILENCE_LIMIT))
}

/// A live HTTP/2 connection. Streams hold clones of it, so it outlives a [`Client`] that has reconnected or was dropped.
#[derive(Clone)]
struct Connection {
    requests: http2::SendRequest<tonic::body::Body>,
    streams: StreamCount,
    /// Whether a stream failed in transport. A processor that shuts down still answers requests in flight but takes no new
    /// ones, so the next stream needs a new connection.
    broken: Arc<AtomicBool>,
    _driver: Arc<Driver>,
}

struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl tower_service::Service<http::Request<tonic::body::Body>> for Connection {
    type Response = http::Response<hyper::body::Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut std::task::Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.requests.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        Box::pin(self.requests.send_request(request))
    }
}

/// The stream of one HTTP request. Dropping it cancels the stream, and the processor drops the request.
#[derive(Debug)]
pub struct Exchange {
    sender: Sender,
    receiver: Receiver,
}

impl Exchange {
    /// Opens an exchange with a processor of this process. `name` stands for the processor's address in errors. A panic of
    /// the processor ends only this exchange.
    ///
    /// # Errors
    ///
    /// If the processor is not ready.
    pub fn in_process(processor: &impl Processor, name: impl Into<Arc<str>>) -> Result<Self, ClientError> {
        let stream = LocalStream::open(processor, name.into())?;
        Ok(Self {
            sender: Sender(EventSink::Local(Arc::clone(&stream))),
            receiver: Receiver(Replies::Local(stream)),
        })
    }

    /// Sends the next event; see [`Sender::send`].
    pub async fn send(&mut self, event: impl Into<Incoming>) -> Result<(), ClientError> {
        self.sender.send(event).await
    }

    /// Waits for the next reply; see [`Receiver::receive`].
    pub async fn receive(&mut self) -> Result<Option<Reply>, ClientError> {
        self.receiver.receive().await
    }

    /// Splits the two directions, so that a body can be sent while replies arrive.
    pub fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }
}

/// The sending half. Dropping it ends the stream in this direction, which a processor treats as the end of the request.
pub struct Sender(EventSink);

enum EventSink {
    Remote { queue: mpsc::Sender<ProcessingRequest>, first: bool, client: Client },
    Local(Arc<LocalStream>),
}

impl Sender {
    /// Sends the next event. This waits while the stream is busy, so the caller must keep receiving at the same time. Fails
    /// if the stream has ended; [`Receiver::receive`] then returns the cause.
    pub async fn send(&mut self, event: impl Into<Incoming>) -> Result<(), ClientError> {
        self.send_next(&mut Some(event.into())).await
    }

    /// Sends the event in `next` as soon as the stream has capacity. Cancel safe, as in `select!`: the event stays in `next`
    /// until it is sent. Fails like [`Sender::send`].
    pub async fn send_next(&mut self, next: &mut Option<Incoming>) -> Result<(), ClientError> {
        match &mut self.0 {
            EventSink::Remote { queue, first, client } => {
                let permit = queue.reserve().await.map_err(|_| ClientError::Broken {
                    target: client.inner.target.to_string(),
                    source: "the stream has ended".into(),
                })?;
                if let Some(event) = next.take() {
                    permit.send(event.into_wire(std::mem::take(first)));
                }
                Ok(())
            }
            EventSink::Local(stream) => next.take().map_or(Ok(()), |event| stream.send(event)),
        }
    }
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

/// The receiving half.
pub struct Receiver(Replies);

enum Replies {
    Remote(RemoteReplies),
    Local(Arc<LocalStream>),
}

struct RemoteReplies {
    state: State,
    broken: Arc<AtomicBool>,
    client: Client,
    _counted: CountedStream,
}

enum State {
    Opening(BoxFuture<'static, Result<Streaming<ProcessingResponse>, tonic::Status>>),
    Open(Box<Streaming<ProcessingResponse>>),
    Ended,
}

impl Receiver {
    /// Waits for the next reply. Returns `None` if the processor has ended the stream without an error, which means that it
    /// has no more replies for this request. Cancel safe, as in `select!`.
    pub async fn receive(&mut self) -> Result<Option<Reply>, ClientError> {
        match &mut self.0 {
            Replies::Remote(replies) => replies.receive().await,
            Replies::Local(stream) => poll_fn(|context| stream.poll_receive(context)).await,
        }
    }
}

impl RemoteReplies {
    async fn receive(&mut self) -> Result<Option<Reply>, ClientError> {
        loop {
            match &mut self.state {
                State::Opening(opening) => match opening.await {
                    Ok(stream) => self.state = State::Open(Box::new(stream)),
                    Err(status) => return Err(self.failed(status)),
                },
                State::Open(stream) => match stream.message().await {
                    Ok(Some(message)) => {
                        if let Some(reply) = Reply::from_wire(message) {
                            return Ok(Some(reply));
                        }
                    }
                    Ok(None) => self.state = State::Ended,
                    Err(status) => return Err(self.failed(status)),
                },
                State::Ended => return Ok(None),
            }
        }
    }

    fn failed(&mut self, status: tonic::Status) -> ClientError {
        self.state = State::Ended;
        let error = self.client.inner.status(status);
        if matches!(error, ClientError::Broken { .. }) {
            self.broken.store(true, Ordering::Release);
        }
        error
    }
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}
