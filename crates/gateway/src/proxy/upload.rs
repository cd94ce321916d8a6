//! The request body of a client. It is read once and buffered as far as it was read, so that it can be sent to another
//! picker or endpoint.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::HeaderMap;
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use longboat_accept::Budget;
use tokio::time::Instant;

/// The largest body to buffer. A picker needs the whole body before it can choose, and a retry needs it again.
pub(crate) const LIMIT: usize = 64 << 20;

/// How long a client may send nothing of a body. Otherwise slow clients would hold connections and the memory of what they
/// have sent.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// How long a client may take for a body that is buffered. Otherwise one that sends a byte now and then would hold memory for hours.
const READ_TIMEOUT: Duration = Duration::from_mins(5);

/// How long to read the rest of a refused body, so that the client reads the response.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// A request body that is being received.
pub(crate) struct Upload {
    /// The part that was not read yet; `None` at the end.
    rest: Option<Incoming>,
    chunks: Vec<Bytes>,
    bytes: usize,
    trailers: Option<HeaderMap>,
    budget: Arc<Budget>,
    /// When the client must have sent it all. Begins with the first part that is buffered.
    end: Option<Instant>,
}

/// The next part of a body.
#[derive(Debug)]
pub(crate) enum Part {
    Data(Bytes),
    Trailers,
}

/// Why a body cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadError {
    /// The client sent less than it announced, or chunks that are none.
    #[error("the request body cannot be read to its end: {}", longboat_tls::chain(.0))]
    Cut(#[source] hyper::Error),
    /// The body exceeds the limit for one body.
    #[error("the request body is larger than {} MiB", LIMIT >> 20)]
    TooLarge,
    /// The client stopped sending.
    #[error("the client has sent nothing of the request body for {} s", IDLE_TIMEOUT.as_secs())]
    Idle,
    /// The client sends, but slowly.
    #[error("the client has not sent the whole request body within {} s: send less, or faster", READ_TIMEOUT.as_secs())]
    Slow,
    /// The bodies of all requests exceed their common limit.
    #[error("the bodies of all requests in flight exceed the memory limit; try again later")]
    Full,
}

// === impl Upload ===

impl Upload {
    /// Creates an upload of which nothing was read yet. Buffered bytes count against the budget.
    pub(crate) fn new(body: Incoming, budget: Arc<Budget>) -> Self {
        let rest = (!body.is_end_stream()).then_some(body);
        Self { rest, chunks: Vec::new(), bytes: 0, trailers: None, budget, end: None }
    }

    /// Whether there is neither data nor trailers.
    pub(crate) fn is_absent(&self) -> bool {
        self.rest.is_none() && self.chunks.is_empty() && self.trailers.is_none()
    }

    /// Counts the body against this budget from now on.
    pub(crate) fn charge(&mut self, budget: &Arc<Budget>) -> Result<(), UploadError> {
        // What was read keeps its former reservation, too, so for now it counts against both budgets.
        for chunk in &mut self.chunks {
            *chunk = budget.keep(std::mem::take(chunk)).ok_or(UploadError::Full)?;
        }
        self.budget = budget.clone();
        Ok(())
    }

    /// Replaces a body that was read as a whole.
    pub(crate) fn replace(&mut self, chunks: Vec<Bytes>) -> Result<(), UploadError> {
        self.bytes = chunks.iter().map(Bytes::len).sum();
        // The parts of the former body have their reservation already.
        self.chunks = chunks.into_iter().filter(|chunk| !chunk.is_empty()).collect();
        if self.bytes > LIMIT { Err(UploadError::TooLarge) } else { Ok(()) }
    }

    /// Whether the buffer has room for the body, as far as its length is announced.
    pub(crate) fn fits(&self) -> bool {
        let announced = self.rest.as_ref().map_or(0, |rest| rest.size_hint().lower());
        self.bytes as u64 + announced <= LIMIT as u64
    }

    /// The number of bytes that were read so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Returns the chunks that were read so far.
    pub(crate) fn chunks(&self) -> &[Bytes] {
        &self.chunks
    }

    /// Returns the trailers, if they were read.
    pub(crate) fn trailers(&self) -> Option<&HeaderMap> {
        self.trailers.as_ref()
    }

    /// Reads and buffers the next part. Returns `None` at the end. Cancel safe, as in `select!`.
    pub(crate) async fn next(&mut self) -> Result<Option<Part>, UploadError> {
        while let Some(body) = &mut self.rest {
            let now = Instant::now();
            let (idle, end) = (now + IDLE_TIMEOUT, *self.end.get_or_insert(now + READ_TIMEOUT));
            let frame = tokio::time::timeout_at(idle.min(end), body.frame()).await;
            let late = |_| if idle < end { UploadError::Idle } else { UploadError::Slow };
            let Some(frame) = frame.map_err(late)? else {
                self.rest = None;
                break;
            };
            match frame.map_err(UploadError::Cut)?.into_data() {
                Ok(data) if data.is_empty() => {}
                Ok(data) => {
                    // Counted before anything is kept, so one body never takes the whole budget.
                    self.bytes += data.len();
                    if self.bytes > LIMIT {
                        return Err(UploadError::TooLarge);
                    }
                    let data = self.budget.keep(data).ok_or(UploadError::Full)?;
                    self.chunks.push(data.clone());
                    return Ok(Some(Part::Data(data)));
                }
                Err(frame) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        self.trailers = Some(trailers);
                        return Ok(Some(Part::Trailers));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Reads the whole body.
    pub(crate) async fn read(&mut self) -> Result<(), UploadError> {
        while self.next().await?.is_some() {}
        Ok(())
    }

    /// Returns the body for a single reader if nothing was read yet; it then needs no buffer.
    pub(crate) fn untouched(&mut self) -> Option<Incoming> {
        if self.chunks.is_empty() { self.rest.take() } else { None }
    }

    /// Reads on for a short time without buffering. Otherwise a client that is refused while it sends would see a broken
    /// connection instead of the response.
    pub(crate) async fn discard(&mut self) {
        self.chunks.clear();
        let Some(body) = &mut self.rest else { return };
        let reading = async {
            let mut left = LIMIT;
            while let Some(Ok(frame)) = body.frame().await {
                let Some(rest) = left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) else { return };
                left = rest;
            }
        };
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, reading).await;
    }
}
