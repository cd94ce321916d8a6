//! Bodies that pass through the gateway. They are streamed, never collected, and dropped when the receiver is gone.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures::stream::BoxStream;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};

use super::upload::{self, UploadError};
use crate::metrics::RunningGuard;

/// Any error that ends a body early.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// Why the gateway ends a body early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyTimeout {
    /// The time of the whole exchange is over.
    #[error("the request timeout of the route expired")]
    Request,
    /// Nothing came for so long.
    #[error("the other side has sent nothing for {} s", .0.as_secs())]
    Idle(Duration),
}

/// A request's or response's body.
pub(crate) struct ProxyBody {
    source: Source,
    deadline: Option<Pin<Box<Sleep>>>,
    idle: Option<IdleLimit>,
    /// The request counts as running until the body of its response is dropped.
    _running: Option<RunningGuard>,
}

/// How long the source of a body may say nothing.
struct IdleLimit {
    limit: Duration,
    timer: Pin<Box<Sleep>>,
    /// Whether the timer runs. While the receiver takes nothing, the source is not asked.
    is_running: bool,
}

enum Source {
    Full(Option<Bytes>),
    Incoming(Incoming),
    Upload(Incoming, Arc<RetryableBody>),
    Lent(Arc<RetryableBody>),
    Chunks(std::collections::VecDeque<Bytes>),
    Stream(BoxStream<'static, Result<Frame<Bytes>, BodyError>>),
}

/// A request body that is offered to several attempts, until one of them starts to read it.
pub(crate) struct RetryableBody {
    body: Mutex<Option<Incoming>>,
    /// Whether a back end has begun to answer. From then on, the limits of the response count.
    is_answered: AtomicBool,
    ended: bool,
    hint: SizeHint,
}

// === impl RetryableBody ===

impl RetryableBody {
    pub(crate) fn new(body: Incoming) -> Arc<Self> {
        Arc::new(Self {
            is_answered: AtomicBool::new(false),
            ended: body.is_end_stream(),
            hint: body.size_hint(),
            body: Mutex::new(Some(body)),
        })
    }

    /// Lets the client say nothing from now on: both sides of a call may have pauses.
    pub(crate) fn answered(&self) {
        self.is_answered.store(true, Ordering::Release);
    }

    /// Whether no attempt has started to read the body.
    pub(crate) fn is_whole(&self) -> bool {
        self.body.lock().is_some()
    }
}

// === impl ProxyBody ===

impl ProxyBody {
    pub(crate) fn empty() -> Self {
        Source::Full(None).into()
    }

    pub(crate) fn full(bytes: Bytes) -> Self {
        Source::Full((!bytes.is_empty()).then_some(bytes)).into()
    }

    pub(crate) fn incoming(body: Incoming) -> Self {
        Source::Incoming(body).into()
    }

    /// Creates a body for one attempt.
    pub(crate) fn for_attempt(body: &Arc<RetryableBody>) -> Self {
        Self::from(Source::Lent(body.clone())).idle(upload::IDLE_TIMEOUT)
    }

    /// Creates a body from chunks in memory. Copying the list copies no bytes.
    pub(crate) fn chunks(chunks: Vec<Bytes>) -> Self {
        Source::Chunks(chunks.into()).into()
    }

    pub(crate) fn stream(stream: BoxStream<'static, Result<Frame<Bytes>, BodyError>>) -> Self {
        Source::Stream(stream).into()
    }

    /// Returns the same body, which fails at the deadline. One that is here already has no deadline: it may say that the time is over.
    pub(crate) fn until(self, deadline: Instant) -> Self {
        if matches!(self.source, Source::Full(_)) {
            return self;
        }
        Self { deadline: Some(Box::pin(tokio::time::sleep_until(deadline))), ..self }
    }

    /// Returns the same body, which fails if its source says nothing for this long.
    pub(crate) fn idle(self, limit: Duration) -> Self {
        let timer = Box::pin(tokio::time::sleep(limit));
        Self { idle: Some(IdleLimit { limit, timer, is_running: false }), ..self }
    }

    /// Returns the same body, with which a running request ends.
    pub(crate) fn counted(self, running: RunningGuard) -> Self {
        Self { _running: Some(running), ..self }
    }
}

impl From<Source> for ProxyBody {
    fn from(source: Source) -> Self {
        Self { source, deadline: None, idle: None, _running: None }
    }
}

impl Source {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Poll::Ready(match self {
            // Never polled: `poll_frame` replaces it first.
            Self::Lent(_) => None,
            Self::Full(bytes) => bytes.take().map(|bytes| Ok(Frame::data(bytes))),
            Self::Chunks(chunks) => chunks.pop_front().map(|bytes| Ok(Frame::data(bytes))),
            Self::Incoming(body) => {
                ready!(Pin::new(body).poll_frame(context)).map(|frame| frame.map_err(Into::into))
            }
            Self::Upload(body, _) => {
                // So that the client hears that its request is wrong, and not that the back end is.
                ready!(Pin::new(body).poll_frame(context))
                    .map(|frame| frame.map_err(|error| UploadError::Cut(error).into()))
            }
            Self::Stream(stream) => ready!(stream.as_mut().poll_next(context)),
        })
    }
}

impl Body for ProxyBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Some(Err(BodyTimeout::Request.into())));
        }
        if let Source::Lent(lent) = &self.source {
            // The first poll of an attempt takes the body. Attempts that fail before it, such as refused connections, leave
            // it to the next.
            let Some(body) = lent.body.lock().take() else {
                return Poll::Ready(None);
            };
            self.source = Source::Upload(body, lent.clone());
        }
        let this = &mut *self;
        let frame = this.source.poll_frame(context);
        let Some(IdleLimit { limit, timer, is_running }) = &mut this.idle else { return frame };
        if frame.is_ready() {
            *is_running = false;
            return frame;
        }
        if !*is_running {
            *is_running = true;
            timer.as_mut().reset(Instant::now() + *limit);
        }
        ready!(timer.as_mut().poll(context));
        let error = match &this.source {
            Source::Upload(_, lent) if lent.is_answered.load(Ordering::Acquire) => {
                this.idle = None;
                // The source was polled above, and has the waker.
                return Poll::Pending;
            }
            Source::Upload(..) => UploadError::Idle.into(),
            _ => BodyTimeout::Idle(*limit).into(),
        };
        Poll::Ready(Some(Err(error)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Full(bytes) => bytes.is_none(),
            Source::Chunks(chunks) => chunks.is_empty(),
            Source::Incoming(body) | Source::Upload(body, _) => body.is_end_stream(),
            Source::Lent(lent) => lent.ended,
            Source::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Source::Chunks(chunks) => {
                SizeHint::with_exact(chunks.iter().map(|bytes| bytes.len() as u64).sum())
            }
            Source::Incoming(body) | Source::Upload(body, _) => body.size_hint(),
            Source::Lent(lent) => lent.hint,
            Source::Stream(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_ends_when_its_source_says_nothing_and_not_while_it_says_something() {
        let second = Duration::from_secs(1);
        let frames = futures::stream::unfold(0, move |count| async move {
            tokio::time::sleep(second * if count < 5 { 9 } else { 11 }).await;
            Some((Ok::<_, BodyError>(Frame::data(Bytes::from_static(b"x"))), count + 1))
        });
        let mut body = ProxyBody::stream(Box::pin(frames)).idle(10 * second);
        for _ in 0..5 {
            assert!(body.frame().await.unwrap().is_ok());
        }
        let error = body.frame().await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "the other side has sent nothing for 10 s");
    }
}
