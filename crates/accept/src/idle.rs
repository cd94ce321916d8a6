//! Closes connections on which no request runs.
//!
//! hyper limits the time for a head only once it knows that a connection speaks HTTP/1. Clients that say nothing, or that open HTTP/2 and
//! ask for nothing, would otherwise keep their connections for ever, until nobody else gets one.

use std::{
    pin::Pin,
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

/// The interval in which a connection that has had requests is closed if none begins, runs or ends. Clients close their idle connections
/// earlier, so that no request meets a connection which is being closed.
const IDLE_TIMEOUT: Duration = Duration::from_mins(5);

/// The requests of a connection.
#[derive(Debug, Clone, Default)]
pub struct RunningRequests(Arc<RequestCounts>);

/// Requests only count. A timer compares the counts, so that no request wakes its connection.
#[derive(Debug, Default)]
struct RequestCounts {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// A request that runs until this is dropped.
#[derive(Debug)]
pub struct RunningRequest(RunningRequests);

/// The body of a response with which a request ends.
#[derive(Debug)]
pub struct LastBody<B> {
    body: B,
    _request: RunningRequest,
}

// === impl RunningRequests ===

impl RunningRequests {
    /// Counts a request.
    #[must_use]
    pub fn begin(&self) -> RunningRequest {
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        RunningRequest(self.clone())
    }

    /// Runs a connection. Returns `None`, and drops it, if its first request does not come within `first`, or if it is without
    /// requests for five to ten minutes.
    pub async fn serve<C: Future>(&self, first: Duration, connection: C) -> Option<C::Output> {
        let idle = async {
            let (mut before, mut limit) = ([0, 0], first);
            loop {
                tokio::time::sleep(limit).await;
                let [begun, ended] =
                    [&self.0.begun, &self.0.ended].map(|count| count.load(Ordering::Relaxed));
                if begun == ended && [begun, ended] == before {
                    return;
                }
                (before, limit) = ([begun, ended], IDLE_TIMEOUT);
            }
        };
        tokio::select! {
            biased;
            done = connection => Some(done),
            () = idle => {
                tracing::debug!("Closing a connection without requests.");
                None
            }
        }
    }
}

// === impl RunningRequest ===

impl RunningRequest {
    /// Returns the same response, at whose end the request ends.
    pub fn until_end_of<B>(self, response: Response<B>) -> Response<LastBody<B>> {
        response.map(|body| LastBody { body, _request: self })
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
        Pin::new(&mut self.body).poll_frame(context)
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
    use std::future::pending;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_closed_if_no_request_runs_on_it_and_not_while_one_does() {
        let second = Duration::from_secs(1);
        let requests = RunningRequests::default();
        assert_eq!(requests.serve(second, async { 1 }).await, Some(1));
        assert_eq!(requests.serve(second, pending::<()>()).await, None, "no request has come");
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
        assert_eq!(requests.serve(second, connection).await, Some(()));
        let connection = async {
            drop(requests.begin());
            pending::<()>().await;
        };
        assert_eq!(requests.serve(second, connection).await, None, "no further request has come");
    }
}
