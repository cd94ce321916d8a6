//! Reads a client's body. It must be complete and arrive in time, and the bodies of all clients together have a memory limit.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use longboat_accept::Budget;
use longboat_tls::chain;
use tokio::time::{Instant, Sleep};

use crate::{
    answer,
    body::{BodyError, ProxyBody, ReadError, read_counted},
};

/// How long the sidecar waits in total for the parts of one body. A client has the same time for a request's head.
const BODY_TIMEOUT: Duration = Duration::from_mins(2);

/// The additional time for each byte. Slow lines (64 KiB per second) are served, but a client that sends one byte per second
/// is not.
const PACE: Duration = Duration::from_nanos(1_000_000_000 / (64 << 10));

/// Why a client's body cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The client sent something other than it had announced, or left.
    #[error("it ended early")]
    Cut(#[source] BodyError),
    /// The body did not arrive in time.
    #[error("it came too slowly")]
    Late,
    /// The body is longer than the limit for one body.
    #[error("it is longer than {0} bytes, which --max-request-body-mib allows")]
    TooLong(usize),
    /// All bodies together exceed their limit.
    #[error("the bodies of all requests in flight exceed the memory limit; try again later")]
    Full,
}

/// A body that fails when it takes too long. Only the time in which its reader waits for the client counts.
#[derive(Debug)]
pub(crate) struct Upload<B> {
    body: B,
    left: Duration,
    /// Runs while the reader waits for the client.
    timer: Option<Pin<Box<Sleep>>>,
}

/// Reads a client's body. Its memory counts against the budget until its last part is dropped.
pub(crate) async fn held<B>(body: Upload<B>, limit: usize, budget: &Arc<Budget>) -> Result<Bytes, Fault>
where
    B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin,
{
    let mut share = budget.hold(0).ok_or(Fault::Full)?;
    let bytes = read_counted(body, limit, |bytes| share.grow(bytes)).await.map_err(|error| match error {
        ReadError::TooLong(limit) => Fault::TooLong(limit),
        ReadError::Full => Fault::Full,
        ReadError::Cut(fault) => fault,
    })?;
    Ok(share.around(bytes))
}

// === impl Fault ===

impl Fault {
    /// Returns the client's fault if it is among the causes of an error.
    pub(crate) fn behind<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        std::iter::successors(Some(error), |error| error.source()).find_map(|error| error.downcast_ref())
    }

    pub(crate) fn answer(&self) -> Response<ProxyBody> {
        let status = match self {
            Self::Cut(_) => StatusCode::BAD_REQUEST,
            Self::Late => StatusCode::REQUEST_TIMEOUT,
            Self::TooLong(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Full => StatusCode::SERVICE_UNAVAILABLE,
        };
        let message = format!("cannot read the body of the request: {}", chain(self));
        let mut answer = answer::error(status, &message);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        answer
    }
}

// === impl Upload ===

impl<B> Upload<B> {
    pub(crate) fn new(body: B) -> Self {
        Self { body, left: BODY_TIMEOUT, timer: None }
    }
}

impl<B> Body for Upload<B>
where
    B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin,
{
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
            let left = self.left;
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(left)));
            ready!(timer.as_mut().poll(context));
            return Poll::Ready(Some(Err(Fault::Late)));
        };
        if let Some(timer) = self.timer.take() {
            self.left = timer.deadline().saturating_duration_since(Instant::now());
        }
        if let Some(Ok(data)) = frame.as_ref().map(|frame| frame.as_ref().map(Frame::data_ref)) {
            self.left += PACE * u32::try_from(data.map_or(0, Bytes::len)).unwrap_or(u32::MAX);
        }
        Poll::Ready(frame.map(|frame| frame.map_err(|error| Fault::Cut(error.into()))))
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
    use std::convert::Infallible;

    use futures::{StreamExt as _, stream};
    use http_body_util::StreamBody;

    use super::*;

    /// Pieces of `size` bytes, one per second.
    fn slow(size: usize, pieces: usize) -> impl Body<Data = Bytes, Error = Infallible> + Unpin {
        let pieces = stream::iter(0..pieces).then(move |_| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(Frame::data(Bytes::from(vec![b'x'; size])))
        });
        StreamBody::new(pieces.boxed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_byte_a_second_is_too_slow_and_a_slow_line_is_not() {
        let budget = Budget::new(1 << 30);
        let started = Instant::now();
        let fault = held(Upload::new(slow(1, 100_000)), 1 << 20, &budget).await.unwrap_err();
        assert!(matches!(fault, Fault::Late), "{fault}");
        assert_eq!(started.elapsed().as_secs(), BODY_TIMEOUT.as_secs());
        assert_eq!(budget.held(), 0);
        let whole = held(Upload::new(slow(64 << 10, 600)), 64 << 20, &budget).await.unwrap();
        assert_eq!((whole.len(), budget.held()), (600 << 16, 600 << 16));
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_nobody_reads_is_not_the_clients() {
        let mut body = Upload::new(slow(1, 3));
        for _ in 0..3 {
            tokio::time::sleep(2 * BODY_TIMEOUT).await;
            let frame = http_body_util::BodyExt::frame(&mut body).await.unwrap();
            assert!(frame.is_ok());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_have_no_room_are_refused_and_leave_it_free() {
        let budget = Budget::new(10);
        let _other = budget.hold(6).unwrap();
        let fault = held(Upload::new(slow(1, 5)), 100, &budget).await.unwrap_err();
        assert!(matches!(fault, Fault::Full), "{fault}");
        assert_eq!(budget.held(), 6);
        assert_eq!(fault.answer().status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}
