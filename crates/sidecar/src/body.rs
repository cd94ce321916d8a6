//! The bodies of requests and responses.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};

use crate::pieces::Pieces;

/// Why a body ended early.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// A body in either direction.
pub(crate) type ProxyBody = UnsyncBoxBody<Bytes, BodyError>;

/// Why a body could not be read completely.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError<E> {
    /// The body is longer than the limit.
    #[error("it is longer than {0} bytes")]
    TooLong(usize),
    /// The counter of held bytes has refused more bytes.
    #[error("the memory limit for bodies is reached")]
    Full,
    /// The sender stopped or closed the connection.
    #[error("it ended early")]
    Cut(#[source] E),
}

/// The longest response that the sidecar reads as a whole. That of a prefill has only one token and the location of the cache.
pub(crate) const MAX_RESPONSE_BYTES: usize = 16 << 20;

/// The most memory that is reserved for a body before its bytes arrive.
const MAX_PREALLOCATED_BYTES: usize = 1 << 20;

/// Creates a body from bytes in memory.
pub(crate) fn full(bytes: impl Into<Bytes>) -> ProxyBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Creates a body from several pieces in memory.
pub(crate) fn pieces(pieces: Pieces) -> ProxyBody {
    pieces.map_err(|never| match never {}).boxed_unsync()
}

/// Creates a body that is passed on as it arrives.
pub(crate) fn passed<B>(body: B) -> ProxyBody
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
{
    let body = Box::pin(body.map_err(Into::into));
    DelayedErrorBody { body, error: None }.boxed_unsync()
}

/// A body that delays its error by one poll. The server closes the connection at an error, and would lose the data that it
/// has not written yet.
struct DelayedErrorBody<B> {
    body: Pin<Box<B>>,
    error: Option<BodyError>,
}

// === impl DelayedErrorBody ===

impl<B: Body<Data = Bytes, Error = BodyError>> Body for DelayedErrorBody<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(error) = self.error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        match ready!(self.body.as_mut().poll_frame(context)) {
            Some(Err(error)) => {
                self.error = Some(error);
                context.waker().wake_by_ref();
                Poll::Pending
            }
            frame => Poll::Ready(frame),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.error.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Reads a body of at most `limit` bytes.
pub(crate) async fn read<B>(body: B, limit: usize) -> Result<Bytes, ReadError<B::Error>>
where
    B: Body<Data = Bytes>,
{
    read_counted(body, limit, |_| Some(())).await
}

/// Like [`read`]. `count` is called with the number of additional bytes to hold, and may refuse them.
pub(crate) async fn read_counted<B>(
    body: B,
    limit: usize,
    mut count: impl FnMut(usize) -> Option<()>,
) -> Result<Bytes, ReadError<B::Error>>
where
    B: Body<Data = Bytes>,
{
    if body.size_hint().lower() > limit as u64 {
        return Err(ReadError::TooLong(limit));
    }
    // The length is only announced: memory for more than this is reserved when the bytes arrive.
    let promised = usize::try_from(body.size_hint().lower()).unwrap_or(limit).min(MAX_PREALLOCATED_BYTES);
    let mut body = std::pin::pin!(body);
    let mut first = Bytes::new();
    let mut collected = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(ReadError::Cut)?.into_data() else {
            continue;
        };
        if first.len() + collected.len() + data.len() > limit {
            return Err(ReadError::TooLong(limit));
        }
        // Counted before it is kept, so that no body is held without a reservation.
        count(data.len()).ok_or(ReadError::Full)?;
        // A body that comes at once is not copied.
        if first.is_empty() && collected.is_empty() {
            first = data;
        } else {
            if collected.is_empty() {
                collected.reserve(promised.max(first.len() + data.len()));
                collected.extend_from_slice(&std::mem::take(&mut first));
            }
            collected.extend_from_slice(&data);
        }
    }
    Ok(if collected.is_empty() { first } else { collected.freeze() })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use http_body::Frame;
    use http_body_util::StreamBody;

    use super::*;

    fn pieces(pieces: Vec<&'static str>) -> impl Body<Data = Bytes, Error = Infallible> {
        StreamBody::new(stream::iter(
            pieces.into_iter().map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::from(piece)))),
        ))
    }

    #[tokio::test]
    async fn a_body_is_read_up_to_its_limit_and_no_further() {
        assert_eq!(read(pieces(vec!["ab", "cd", "e"]), 5).await.unwrap(), "abcde");
        assert_eq!(read(pieces(vec![]), 0).await.unwrap(), "");
        assert!(matches!(read(pieces(vec!["ab", "cd"]), 3).await, Err(ReadError::TooLong(3))));
        assert!(matches!(read(Full::from("abcd"), 3).await, Err(ReadError::TooLong(3))));
    }
}
