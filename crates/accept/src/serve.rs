//! Serves the requests of a connection with hyper, within limits of time.

use std::{convert::Infallible, error::Error, time::Duration};

use bytes::Buf;
use http::{Request, Response};
use http_body::Body;
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto::{self, UpgradeableConnection},
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::{
    idle::RunningRequests,
    sending::{StreamExecutor, while_read},
};

/// The largest head of a message of HTTP/2, in bytes. Envoy takes 60 KiB.
pub const MAX_HEAD_BYTES: u32 = 64 << 10;

/// The settings of connections with HTTP/1 and HTTP/2.
pub type Builder = auto::Builder<StreamExecutor>;

/// Returns the settings of a connection with HTTP/1 and HTTP/2. With HTTP/1, a client has the time of `head` to send the head of a
/// request; with HTTP/2, [`serve`] limits the time between requests.
pub fn builder(head: Duration) -> Builder {
    let mut builder = Builder::new(StreamExecutor);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(head);
    builder.http2().max_header_list_size(MAX_HEAD_BYTES);
    builder
}

/// Serves a connection until it ends, or gracefully closes it: at `shutdown`, if its first request does not come within `first`, or if it
/// is without requests for five to ten minutes. Ends responses that its client does not read. The connection may change its protocol.
pub async fn serve<A, B>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    builder: &Builder,
    first: Duration,
    shutdown: &CancellationToken,
    answer: impl Fn(Request<Incoming>) -> A,
) where
    A: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data: Buf + Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
{
    let requests = RunningRequests::default();
    let service = service_fn(|request| {
        let (running, response) = (requests.begin(), answer(request));
        async move { Ok::<_, Infallible>(running.until_end_of(response.await)) }
    });
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let served = requests.serve(first, shutdown, connection, UpgradeableConnection::graceful_shutdown);
    if let Some(Some(Err(error))) = while_read(served).await {
        tracing::debug!(%error, "A connection ended early.");
    }
}

/// Serves a connection with HTTP/1 until it ends. A client has the time of `head` to send the head of a request, and may wait as long
/// between two requests: enough for probes and scrapes. Ends responses that its client does not read.
pub async fn serve_http1<S, B>(stream: impl AsyncRead + AsyncWrite + Unpin, head: Duration, service: S)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error: Into<Box<dyn Error + Send + Sync>>>,
    B: Body<Data: Buf, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin + 'static,
{
    let requests = RunningRequests::default();
    let service = service_fn(|request| {
        let (running, response) = (requests.begin(), service.call(request));
        async move { response.await.map(|response| running.until_end_of(response)) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(head);
    if let Some(Err(error)) = while_read(builder.serve_connection(TokioIo::new(stream), service)).await {
        tracing::debug!(%error, "A connection ended early.");
    }
}
