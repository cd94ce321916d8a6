//! TCP connections of a proxy to the servers behind it.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector},
    rt::TokioIo,
};
use tokio::net::TcpStream;
use tower_service::Service;

/// How long a proxy keeps an idle connection. A server may close an idle connection at any time, and vLLM does so after 5 seconds, so the
/// proxy closes it earlier.
pub const UPSTREAM_IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// How long the system of a server may be silent on a connection before it is asked for a sign of life, how often it is asked again, and
/// after which time. A response may take long, but the machine of a busy server acknowledges, and one that is gone does not.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const KEEP_ALIVE_RETRIES: u32 = 3;
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Opens connections.
#[derive(Debug, Clone)]
pub struct TcpConnector<R>(HttpConnector<R>);

/// A connection whose response can still be read after the server has closed it.
///
/// A server may refuse a request while its body is on the way: it answers, and closes. The next write then fails, and hyper would drop the
/// response, which has arrived. So what the server does not take any more is discarded, and the end of reading says what has happened.
#[derive(Debug)]
pub struct UpstreamStream {
    stream: TokioIo<TcpStream>,
    is_write_closed: bool,
}

// === impl TcpConnector ===

impl<R> TcpConnector<R> {
    /// Returns a connector, also for connections with TLS. An attempt ends after `timeout`.
    pub fn new(resolver: R, timeout: Duration) -> Self {
        let mut connector = HttpConnector::new_with_resolver(resolver);
        connector.set_nodelay(true);
        // Addresses of connections with TLS begin with `https`.
        connector.enforce_http(false);
        connector.set_connect_timeout(Some(timeout));
        connector.set_keepalive(Some(KEEP_ALIVE));
        connector.set_keepalive_retries(Some(KEEP_ALIVE_RETRIES));
        connector.set_keepalive_interval(Some(KEEP_ALIVE_INTERVAL));
        Self(connector)
    }
}

impl<R> Service<Uri> for TcpConnector<R>
where
    HttpConnector<R>: Service<Uri, Response = TokioIo<TcpStream>, Future: Send + 'static>,
{
    type Response = UpstreamStream;
    type Error = <HttpConnector<R> as Service<Uri>>::Error;
    type Future = Pin<Box<dyn Future<Output = Result<UpstreamStream, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        let connecting = self.0.call(address);
        Box::pin(async { Ok(UpstreamStream { stream: connecting.await?, is_write_closed: false }) })
    }
}

// === impl UpstreamStream ===

impl UpstreamStream {
    /// Writes with `write`, or pretends to have written all if the server has closed the connection.
    fn write(
        &mut self,
        bytes: usize,
        write: impl FnOnce(Pin<&mut TokioIo<TcpStream>>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if !self.is_write_closed {
            match ready!(write(Pin::new(&mut self.stream))) {
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) =>
                {
                    self.is_write_closed = true;
                }
                done => return Poll::Ready(done),
            }
        }
        Poll::Ready(Ok(bytes))
    }
}

impl Connection for UpstreamStream {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

impl Read for UpstreamStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl Write for UpstreamStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(bytes.len(), |stream| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes = parts.iter().map(|part| part.len()).sum();
        self.write(bytes, |stream| stream.poll_write_vectored(context, parts))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::client::legacy::connect::dns::GaiResolver;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    #[tokio::test]
    async fn a_response_is_read_although_the_server_has_closed_during_the_request() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let mut connector = TcpConnector::new(GaiResolver::new(), Duration::from_secs(5));
        let stream = connector.call(address.parse().unwrap()).await.unwrap();
        let mut stream = TokioIo::new(stream);
        let (mut server, _) = listener.accept().await.unwrap();
        stream.write_all(b"request").await.unwrap();
        server.readable().await.unwrap();
        server.write_all(b"413").await.unwrap();
        // Closed with bytes that nobody has read, which resets the connection.
        drop(server);
        for _ in 0..3 {
            stream.write_all(b"more").await.unwrap();
        }
        let mut response = Vec::new();
        // The end may be an error.
        let _ = stream.read_to_end(&mut response).await;
        assert_eq!(response, b"413");
    }
}
