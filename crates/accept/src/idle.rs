//! Closes connections on which no request runs, and at the end of a server all of them.
//!
//! hyper limits the time for a head only once it knows that a connection speaks HTTP/1. Clients that say nothing, or that open HTTP/2 and
//! ask for nothing, would otherwise keep their connections for ever, until nobody else gets one.

use std::{
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Buf;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::sending::{SendDeadline, SendLimit};

/// The interval in which a connection that has had requests is closed if none begins, runs or ends. Clients close their idle connections
/// earlier, so that no request meets a connection which is being closed.
const IDLE_TIMEOUT: Duration = Duration::from_mins(5);

/// How long a client has to learn that its connection closes (with HTTP/2, the server waits for an answer to its GOAWAY). Requests
/// that it sends until then are answered.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The requests of a connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunningRequests(Arc<RequestCounts>);

/// Requests only count. A timer compares the counts, so that no request wakes its connection.
#[derive(Debug, Default)]
struct RequestCounts {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// A request that runs until this is dropped.
#[derive(Debug)]
pub(crate) struct RunningRequest(RunningRequests);

/// The body of a response with which a request ends.
#[derive(Debug)]
pub(crate) struct LastBody<B> {
    body: B,
    limit: SendLimit,
    _request: RunningRequest,
}

// === impl RunningRequests ===

impl RunningRequests {
    /// Counts a request.
    #[must_use]
    pub(crate) fn begin(&self) -> RunningRequest {
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        RunningRequest(self.clone())
    }

    /// Runs a connection. Calls `close`, which must begin to close it gracefully, at `shutdown`, and if the first request does not come
    /// within `first` or the connection is without requests for five to ten minutes. Returns `None`, and drops the connection, if it
    /// still has none some time later. After `shutdown`, the connection has as much time as it needs.
    pub(crate) async fn serve<C: Future>(
        &self,
        first: Duration,
        shutdown: &CancellationToken,
        connection: C,
        close: impl Fn(Pin<&mut C>),
    ) -> Option<C::Output> {
        let mut connection = Box::pin(connection);
        let mut timer = pin!(tokio::time::sleep(first));
        let (mut before, mut is_closing) = ([0, 0], false);
        loop {
            tokio::select! {
                biased;
                done = connection.as_mut() => return Some(done),
                () = shutdown.cancelled() => {
                    close(connection.as_mut());
                    return Some(connection.await);
                }
                () = timer.as_mut() => {}
            }
            // Relaxed: what is not seen now is seen at the next look.
            let counts = [&self.0.begun, &self.0.ended].map(|count| count.load(Ordering::Relaxed));
            if std::mem::replace(&mut before, counts) == counts && counts[0] == counts[1] {
                if is_closing {
                    tracing::debug!("A client has ignored that its connection closes.");
                    return None;
                }
                is_closing = true;
                // The loop goes on, because only polling the connection closes it.
                close(connection.as_mut());
            }
            timer.as_mut().reset(Instant::now() + if is_closing { CLOSE_TIMEOUT } else { IDLE_TIMEOUT });
        }
    }
}

// === impl RunningRequest ===

impl RunningRequest {
    /// Returns the same response, at whose end the request ends, and which its client has to read.
    pub(crate) fn until_end_of<B>(self, mut response: Response<B>) -> Response<LastBody<B>> {
        let limit = SendLimit::new(response.extensions_mut().remove::<SendDeadline>());
        response.map(|body| LastBody { body, limit, _request: self })
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.0.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

impl<B: Body<Data: Buf> + Unpin> Body for LastBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        self.limit.set(frame.is_ready());
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::pending};

    use http::Request;
    use hyper::service::service_fn;
    use hyper_util::{
        rt::{TokioExecutor, TokioIo},
        server::conn::auto::{Builder, Connection},
    };
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Runs a connection that closes as soon as it is asked to.
    async fn serve(requests: &RunningRequests, connection: impl Future<Output = ()>) -> &'static str {
        let (shutdown, closing) = (CancellationToken::new(), CancellationToken::new());
        let connection = async {
            tokio::select! {
                () = connection => "ended",
                () = closing.cancelled() => "closed",
            }
        };
        requests.serve(SECOND, &shutdown, connection, |_| closing.cancel()).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_closed_if_no_request_runs_on_it_and_not_while_one_does() {
        let requests = RunningRequests::default();
        assert_eq!(serve(&requests, async {}).await, "ended");
        assert_eq!(serve(&requests, pending()).await, "closed", "no request has come");
        let connection = async {
            let first = requests.begin();
            let second = requests.begin();
            tokio::time::sleep(2 * IDLE_TIMEOUT).await;
            drop(first);
            tokio::time::sleep(2 * IDLE_TIMEOUT).await;
            drop(second.until_end_of(Response::new(())));
            tokio::time::sleep(IDLE_TIMEOUT / 2).await;
            drop(requests.begin());
            tokio::time::sleep(IDLE_TIMEOUT / 2).await;
        };
        assert_eq!(serve(&requests, connection).await, "ended");
        let connection = async {
            drop(requests.begin());
            pending::<()>().await;
        };
        assert_eq!(serve(&requests, connection).await, "closed", "no further request has come");
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_dropped_if_its_client_ignores_that_it_closes() {
        let (requests, shutdown) = (RunningRequests::default(), CancellationToken::new());
        assert_eq!(requests.serve(SECOND, &shutdown, pending::<()>(), |_| {}).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_shutdown_a_connection_closes_when_its_client_has_read_all() {
        let (requests, shutdown, closing) =
            (RunningRequests::default(), CancellationToken::new(), CancellationToken::new());
        shutdown.cancel();
        let connection = async {
            closing.cancelled().await;
            tokio::time::sleep(2 * IDLE_TIMEOUT).await;
        };
        assert_eq!(requests.serve(SECOND, &shutdown, connection, |_| closing.cancel()).await, Some(()));
    }

    /// Connects two sides by a network on which the bytes of the second one take a while.
    fn slow_network(delay: Duration) -> (DuplexStream, DuplexStream) {
        let (client, near) = tokio::io::duplex(1 << 16);
        let (far, server) = tokio::io::duplex(1 << 16);
        let (mut from_client, mut to_client) = tokio::io::split(near);
        let (mut from_server, mut to_server) = tokio::io::split(far);
        tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
        tokio::spawn(async move {
            let mut bytes = [0; 1024];
            while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
                tokio::time::sleep(delay).await;
                to_client.write_all(&bytes[..count]).await.unwrap();
            }
        });
        (client, server)
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_is_answered_that_a_client_sends_before_it_knows_that_its_connection_closes() {
        let begun = Instant::now();
        let (client, server) = slow_network(2 * SECOND);
        let server = tokio::spawn(async move {
            let requests = RunningRequests::default();
            let running = requests.clone();
            let service = service_fn(move |_| {
                let running = running.begin();
                async move { Ok::<_, Infallible>(running.until_end_of(Response::new(String::new()))) }
            });
            let builder = Builder::new(TokioExecutor::new());
            let connection = builder.serve_connection(TokioIo::new(server), service).into_owned();
            let shutdown = CancellationToken::new();
            requests.serve(SECOND, &shutdown, connection, Connection::graceful_shutdown).await
        });
        let (mut sender, connection) = h2::client::handshake(client).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut ask = async || {
            let request = Request::get("http://a/").body(()).unwrap();
            sender.send_request(request, true).unwrap().0.await.unwrap().status()
        };
        assert_eq!(ask().await, 200);
        tokio::time::sleep_until(begun + SECOND + IDLE_TIMEOUT + SECOND).await;
        assert_eq!(ask().await, 200);
        drop(sender);
        connection.await.unwrap().unwrap();
        server.await.unwrap().expect("the client has answered, so nobody drops the connection").unwrap();
    }
}
