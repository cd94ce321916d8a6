//! The transport that uses tonic over hyper.

use std::{
    convert::Infallible,
    future::{Future, Ready, ready},
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use futures::{Stream, future::BoxFuture};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, SizeHint};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use longboat_accept::{Budget, MemoryReservation};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time,
};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, Streaming, codec::CompressionEncoding, server::Grpc};
use tonic_prost::ProstCodec;

use super::{
    Exchange, Outbox, PATH, Processor,
    limits::{Activity, CountedStream, MAX_FIELDS, MAX_STREAMS, TOO_MANY_STREAMS, Timers, Verdict},
    options::ServerState,
};
use crate::{
    message::Incoming,
    windows::{CONNECTION_WINDOW, STREAM_WINDOW},
    wire::{ProcessingRequest, ProcessingResponse},
};

/// Serves a connection until it ends.
pub(super) async fn connection<P: Processor>(
    io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    shared: Arc<ServerState<P>>,
    shutdown: CancellationToken,
) {
    let limits = shared.options.limits;
    let streams = Arc::new(Streams::default());
    let service = Service { shared, streams: Arc::clone(&streams) };
    let io = TokioIo::new(io);
    let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.silence)
        .keep_alive_timeout(limits.answer)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_FIELDS)
        .serve_connection(io, service);
    let mut connection = std::pin::pin!(connection);
    let period = limits.period();
    let mut looks = time::interval_at(time::Instant::now() + period, period);
    looks.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    let mut timers = Timers::default();
    let mut leaving = false;
    let ended = loop {
        tokio::select! {
            ended = connection.as_mut() => break ended,
            () = shutdown.cancelled(), if !leaving => {
                leaving = true;
                connection.as_mut().graceful_shutdown();
            }
            _ = looks.tick() => match timers.check(period, &limits, streams.seen()) {
                // hyper asks silent peers itself.
                Verdict::Stay | Verdict::Ping => {}
                Verdict::Leave => connection.as_mut().graceful_shutdown(),
                Verdict::Close(reason) => {
                    tracing::debug!(reason, "A connection is closed.");
                    return;
                }
            },
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "Connection ended.");
    }
}

/// The streams of one connection.
#[derive(Debug, Default)]
struct Streams {
    open: AtomicUsize,
    opened: AtomicU64,
}

/// An open stream of a connection.
#[derive(Debug)]
struct StreamGuard(Arc<Streams>);

impl Streams {
    fn open(self: &Arc<Self>) -> StreamGuard {
        self.open.fetch_add(1, Relaxed);
        self.opened.fetch_add(1, Relaxed);
        StreamGuard(Arc::clone(self))
    }

    fn seen(&self) -> Activity {
        Activity { streams: self.open.load(Relaxed), opened: self.opened.load(Relaxed), heard: true }
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

/// Routes requests by path, and starts the gRPC stream.
struct Service<P> {
    shared: Arc<ServerState<P>>,
    streams: Arc<Streams>,
}

impl<P: Processor> hyper::service::Service<http::Request<hyper::body::Incoming>> for Service<P> {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn call(&self, request: http::Request<hyper::body::Incoming>) -> Self::Future {
        let options = &self.shared.options;
        let stream = self.streams.open();
        if request.uri().path() == PATH && self.shared.processor.exists() {
            let mut grpc = Grpc::new(ProstCodec::<ProcessingResponse, ProcessingRequest>::default())
                .accept_compressed(CompressionEncoding::Gzip)
                .max_decoding_message_size(options.max_receive_bytes)
                .max_encoding_message_size(options.max_send_bytes);
            let start = Start { shared: Arc::clone(&self.shared), stream: Some(stream) };
            let partial = Arc::clone(&self.shared.options.memory);
            let request = request.map(|body| MeteredBody::new(body, partial));
            return Box::pin(async move { Ok(grpc.streaming(start, request).await) });
        }
        if let Some(others) = &options.others {
            let mut others = others.clone();
            return Box::pin(async move {
                use tower_service::Service as _;
                let response = others.call(request.map(tonic::body::Body::new)).await?;
                // The stream counts until the response's body is dropped.
                Ok(response.map(|body| {
                    tonic::body::Body::new(body.map_err(move |status| {
                        let _open = &stream;
                        status
                    }))
                }))
            });
        }
        Box::pin(ready(Ok(Status::unimplemented("no such method").into_http())))
    }
}

struct Start<P> {
    shared: Arc<ServerState<P>>,
    stream: Option<StreamGuard>,
}

impl<P: Processor> tower_service::Service<tonic::Request<Streaming<ProcessingRequest>>> for Start<P> {
    type Response = tonic::Response<Replies<P::Exchange>>;
    type Error = Status;
    type Future = Ready<Result<Self::Response, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: tonic::Request<Streaming<ProcessingRequest>>) -> Self::Future {
        let ServerState { processor, options, stream_count, .. } = &*self.shared;
        if !processor.is_ready() {
            return ready(Err(Status::unavailable("not ready yet")));
        }
        let Some(counted) = stream_count.take(options.limits.streams) else {
            processor.too_many_streams();
            return ready(Err(Status::unavailable(TOO_MANY_STREAMS)));
        };
        ready(Ok(tonic::Response::new(Replies {
            incoming: request.into_inner(),
            exchange: processor.open(),
            out: Outbox::default(),
            ended: false,
            first: Some(Box::pin(time::sleep(options.limits.first))),
            _counted: counted,
            _stream: self.stream.take(),
        })))
    }
}

/// The reply direction of a stream: reads events, runs the exchange, and yields its queued answers.
struct Replies<E> {
    incoming: Streaming<ProcessingRequest>,
    exchange: E,
    out: Outbox,
    /// Whether the exchange was already told how the stream ended.
    ended: bool,
    /// The time limit for the first message. `None` after the first message.
    first: Option<Pin<Box<time::Sleep>>>,
    _counted: CountedStream,
    _stream: Option<StreamGuard>,
}

impl<E: Exchange> Replies<E> {
    fn end<T>(&mut self) -> Poll<Option<T>> {
        self.end_with(Code::Ok);
        Poll::Ready(None)
    }

    /// Tells the exchange once how the stream ended.
    fn end_with(&mut self, code: Code) {
        if !self.ended {
            self.ended = true;
            // All gRPC codes fit into a byte.
            self.exchange.ended(u8::try_from(i32::from(code)).unwrap_or_default());
        }
    }
}

impl<E: Exchange> Stream for Replies<E> {
    type Item = Result<ProcessingResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(reply) = this.out.pop() {
                return Poll::Ready(Some(Ok(reply.into_wire())));
            }
            if this.out.finished {
                return this.end();
            }
            this.exchange.poll(context, &mut this.out);
            if this.out.finished || !this.out.is_empty() {
                continue;
            }
            let Poll::Ready(message) = Pin::new(&mut this.incoming).poll_next(context) else {
                let late = this.first.as_mut().is_some_and(|first| first.as_mut().poll(context).is_ready());
                if !late {
                    return Poll::Pending;
                }
                this.out.finished = true;
                let status = Status::deadline_exceeded("no message has come");
                this.end_with(status.code());
                return Poll::Ready(Some(Err(status)));
            };
            this.first = None;
            match message {
                Some(Ok(message)) => {
                    if let Some(incoming) = Incoming::from_wire(message) {
                        this.exchange.handle(incoming, &mut this.out);
                    }
                }
                Some(Err(status)) => {
                    this.out.finished = true;
                    // The proxy has cancelled the request, so nobody reads a status.
                    if status.code() != tonic::Code::Cancelled {
                        let status = Status::unknown(status.message());
                        this.end_with(status.code());
                        return Poll::Ready(Some(Err(status)));
                    }
                    return Poll::Ready(None);
                }
                None => return this.end(),
            }
        }
    }
}

/// The body of a stream of messages, whose unfinished message counts in the memory of all streams.
struct MeteredBody {
    body: hyper::body::Incoming,
    partial: Arc<Budget>,
    held: Option<MemoryReservation>,
    message: PartialMessage,
}

impl MeteredBody {
    fn new(body: hyper::body::Incoming, partial: Arc<Budget>) -> Self {
        Self { body, partial, held: None, message: PartialMessage::default() }
    }

    fn count(&mut self, bytes: &[u8]) -> io::Result<()> {
        let before = self.message.length;
        let now = self.message.push(bytes);
        if now <= before {
            self.held = None;
        }
        let more = if self.held.is_some() { now - before } else { now };
        let held = match &mut self.held {
            Some(held) => held.grow(more),
            None if more == 0 => Some(()),
            None => self.partial.hold(more).map(|held| self.held = Some(held)),
        };
        held.ok_or_else(|| {
            let limit = self.partial.limit();
            io::Error::other(format!("unfinished messages of all streams take more than {limit} bytes"))
        })
    }
}

impl Body for MeteredBody {
    type Data = bytes::Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<bytes::Bytes>, Self::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        Poll::Ready(frame.map(|frame| {
            let frame = frame?;
            if let Some(data) = frame.data_ref() {
                self.count(data)?;
            }
            Ok(frame)
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The length of the message that has not come whole.
#[derive(Debug, Default)]
struct PartialMessage {
    /// The prefix of the message: whether it is compressed, and its length.
    prefix: [u8; 5],
    /// The received bytes of the message, with its prefix.
    length: usize,
}

impl PartialMessage {
    /// Takes bytes of a stream of messages. Returns how many bytes of an unfinished message have come.
    fn push(&mut self, mut bytes: &[u8]) -> usize {
        while !bytes.is_empty() {
            let prefix = self.prefix.len();
            if self.length < prefix {
                let taken = bytes.len().min(prefix - self.length);
                self.prefix[self.length..self.length + taken].copy_from_slice(&bytes[..taken]);
                self.length += taken;
                bytes = &bytes[taken..];
            }
            if self.length >= prefix {
                let [_, size @ ..] = self.prefix;
                let whole = prefix.saturating_add(u32::from_be_bytes(size) as usize);
                let taken = bytes.len().min(whole - self.length);
                self.length += taken;
                bytes = &bytes[taken..];
                if self.length == whole {
                    self.length = 0;
                }
            }
        }
        self.length
    }
}

#[cfg(test)]
mod tests {
    use super::PartialMessage;

    #[test]
    fn only_the_message_that_has_not_come_whole_counts() {
        let message = |length: u8| [&[0, 0, 0, 0, length][..], &vec![7; length.into()]].concat();
        let stream = [message(3), message(0), message(200)].concat();
        for piece in [1, 2, 7, 1000] {
            let mut unfinished = PartialMessage::default();
            let mut most = 0;
            for bytes in stream.chunks(piece) {
                most = most.max(unfinished.push(bytes));
            }
            assert_eq!(unfinished.length, 0);
            assert!(most <= 204 && (piece == 1000 || most > 190), "{most}");
        }
        assert_eq!(PartialMessage::default().push(&[1, 0xff, 0xff, 0xff, 0xff, 0]), 6);
    }
}
