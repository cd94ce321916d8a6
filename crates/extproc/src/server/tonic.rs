//! The transport that uses tonic over hyper.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{Stream, future::BoxFuture};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, Streaming, codec::CompressionEncoding, server::Grpc};
use tonic_prost::ProstCodec;

use super::{Exchange, MAX_STREAMS, Outbox, PATH, Processor, Shared};
use crate::{
    client::{CONNECTION_WINDOW, STREAM_WINDOW},
    message::Incoming,
    wire::{ProcessingRequest, ProcessingResponse},
};

/// Serves a connection until it ends.
pub(super) async fn connection<P: Processor>(
    io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    shared: Arc<Shared<P>>,
    shutdown: CancellationToken,
) {
    let service = Service(shared);
    let io = TokioIo::new(io);
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

/// Routes requests by path, and starts the gRPC stream.
struct Service<P>(Arc<Shared<P>>);

impl<P: Processor> hyper::service::Service<http::Request<hyper::body::Incoming>> for Service<P> {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn call(&self, request: http::Request<hyper::body::Incoming>) -> Self::Future {
        let Shared { processor, options, .. } = &*self.0;
        if request.uri().path() == PATH {
            let mut grpc = Grpc::new(ProstCodec::<ProcessingResponse, ProcessingRequest>::default())
                .accept_compressed(CompressionEncoding::Gzip)
                .max_decoding_message_size(options.max_receive_bytes)
                .max_encoding_message_size(options.max_send_bytes);
            let open = Open(Arc::clone(processor));
            return Box::pin(async move { Ok(grpc.streaming(open, request).await) });
        }
        if let Some(others) = &options.others {
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
            ended: false,
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
            if let Some(message) = this.out.queue.pop_front() {
                return Poll::Ready(Some(Ok(message)));
            }
            if this.out.finished {
                return this.end();
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
