//! Ends responses that a client does not read.
//!
//! While hyper cannot send what it has, it asks a body for nothing more. So a body cannot end by itself then, and the source behind it,
//! such as a connection to a back end, would stay open as long as the client likes. The task that sends the body is dropped instead: with
//! HTTP/1 that is the connection, with HTTP/2 the stream, which is reset.

use std::{
    cell::Cell,
    pin::Pin,
    task::{Poll, ready},
    time::Duration,
};

use hyper::rt::Executor;
use tokio::time::{Instant, Sleep};

/// How long a client may take nothing of a body that has more. A slow client takes something in this time: what the system has buffered for
/// it is a few MiB at most.
pub const UNREAD_TIMEOUT: Duration = Duration::from_mins(15);

tokio::task_local! {
    /// When the task ends, if it still sends the same part of a body.
    static END: Cell<Option<Instant>>;
}

/// When a client must have read a response. An extension of the response.
#[derive(Debug, Clone, Copy)]
pub struct SendDeadline(pub Instant);

/// Runs the streams of HTTP/2.
#[derive(Debug, Clone, Copy, Default)]
pub struct StreamExecutor;

/// The limit of a body that is sent. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct SendLimit(Option<Instant>);

/// Runs a connection or a stream. Drops it, and returns `None`, if its client does not read.
pub(crate) fn while_read<F: Future>(sending: F) -> impl Future<Output = Option<F::Output>> {
    // On the heap: the future of whoever waits for this has no room for it.
    let (mut sending, mut timer) = (Box::pin(sending), None::<Pin<Box<Sleep>>>);
    let watched = std::future::poll_fn(move |context| {
        if let Poll::Ready(done) = sending.as_mut().poll(context) {
            return Poll::Ready(Some(done));
        }
        while let Some(end) = END.with(Cell::get) {
            let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
            if timer.deadline() > end {
                timer.as_mut().reset(end);
            }
            ready!(timer.as_mut().poll(context));
            if timer.deadline() == end {
                tracing::debug!("A client has not read a response in time.");
                return Poll::Ready(None);
            }
            // A later end is set only here: most bodies are gone before the timer fires.
            timer.as_mut().reset(end);
        }
        Poll::Pending
    });
    END.scope(Cell::new(None), watched)
}

// === impl StreamExecutor ===

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for StreamExecutor {
    fn execute(&self, stream: F) {
        tokio::spawn(while_read(stream));
    }
}

// === impl SendLimit ===

impl SendLimit {
    pub(crate) fn new(deadline: Option<SendDeadline>) -> Self {
        let limit = Self(deadline.map(|SendDeadline(deadline)| deadline));
        limit.set(true);
        limit
    }

    /// Sets the end of the task. `has_part`: the client has to take a part of the body, and otherwise the body waits for its source.
    pub(crate) fn set(&self, has_part: bool) {
        let unread = has_part.then(|| Instant::now() + UNREAD_TIMEOUT);
        set_end(self.0.into_iter().chain(unread).min());
    }
}

impl Drop for SendLimit {
    fn drop(&mut self) {
        set_end(None);
    }
}

fn set_end(end: Option<Instant>) {
    // Outside of such a task, nothing limits a body.
    let _ = END.try_with(|current| current.set(end));
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{Request, Response};
    use http_body::Frame;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_util::sync::CancellationToken;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A body of many parts. The token ends when it is dropped.
    struct Endless(#[expect(dead_code, reason = "dropped")] tokio_util::sync::DropGuard);

    impl http_body::Body for Endless {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'a'; 1024])))))
        }
    }

    /// Serves bodies without an end: those of `/hurried` have a deadline. Returns the client's side, and what ends with a body.
    fn server(only_http1: bool) -> (tokio::io::DuplexStream, CancellationToken) {
        let (client, server) = tokio::io::duplex(1 << 16);
        let ended = CancellationToken::new();
        let ends = ended.clone();
        tokio::spawn(async move {
            let answer = move |request: Request<hyper::body::Incoming>| {
                let mut response = Response::new(Endless(ends.clone().drop_guard()));
                if request.uri().path() == "/hurried" {
                    response.extensions_mut().insert(SendDeadline(Instant::now() + 5 * SECOND));
                }
                async move { response }
            };
            if only_http1 {
                let service = async |request| Ok::<_, std::convert::Infallible>(answer(request).await);
                return crate::serve_http1(server, SECOND, hyper::service::service_fn(service)).await;
            }
            let shutdown = CancellationToken::new();
            crate::serve(server, &crate::builder(SECOND), SECOND, &shutdown, answer).await;
        });
        (client, ended)
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_whose_client_does_not_read_and_not_that_of_a_slow_one() {
        for (path, limit, only_http1) in
            [("/hurried", 5 * SECOND, false), ("/", UNREAD_TIMEOUT, false), ("/", UNREAD_TIMEOUT, true)]
        {
            let (mut client, ended) = server(only_http1);
            client.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await.unwrap();
            // hyper may ask for one more part when the first timer wakes it.
            tokio::time::timeout(3 * limit, ended.cancelled()).await.expect(path);
            assert!(client.read_to_end(&mut Vec::new()).await.is_ok(), "the connection is closed");
        }
        let (mut client, ended) = server(false);
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        for _ in 0..8 {
            tokio::time::sleep(UNREAD_TIMEOUT / 2).await;
            client.read_exact(&mut vec![0; 1 << 18]).await.unwrap();
        }
        assert!(!ended.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_is_reset_whose_client_does_not_read_and_its_connection_stays() {
        let (client, _ended) = server(false);
        let mut builder = h2::client::Builder::new();
        let handshake = builder.initial_connection_window_size(1 << 20).handshake::<_, Bytes>(client);
        let (mut sender, connection) = handshake.await.unwrap();
        tokio::spawn(connection);
        let mut ask = async |path: &str| {
            let request = Request::get(format!("http://a{path}")).body(()).unwrap();
            let sent = sender.send_request(request, true).unwrap();
            sent.0.await.unwrap().into_body()
        };
        // The windows of the streams fill, and the client makes no room.
        let mut hurried = ask("/hurried").await;
        let mut slow = ask("/").await;
        let error = loop {
            match hurried.data().await.unwrap() {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(error.reason(), Some(h2::Reason::CANCEL));
        assert!(slow.data().await.unwrap().is_ok());
    }
}
