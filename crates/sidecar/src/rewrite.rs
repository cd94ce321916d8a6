//! Replaces the cached token count in the decoder's response by the prefiller's count, while the response streams.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response, header};
use http_body::{Body, Frame};
use hyper::body::Incoming;

use crate::{
    body::{BodyError, MAX_RESPONSE_BYTES, ProxyBody, passed},
    usage::{self, Events},
};

/// Replaces the cached token count in a response, if its content type can contain one.
pub(crate) fn with_cached_tokens(response: Response<Incoming>, cached_tokens: u64) -> Response<ProxyBody> {
    let (mut head, body) = response.into_parts();
    let Some(kind) = Kind::of(&head.headers, cached_tokens) else {
        return Response::from_parts(head, passed(body));
    };
    // The new count may have more or fewer digits.
    head.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(head, passed(RewritingBody { body, kind, trailers: None, ended: false }))
}

enum Kind {
    Events(Events),
    Json { held: BytesMut, cached_tokens: u64, passing: bool },
}

struct RewritingBody {
    body: Incoming,
    kind: Kind,
    trailers: Option<HeaderMap>,
    ended: bool,
}

// === impl Kind ===

impl Kind {
    fn of(headers: &HeaderMap, cached_tokens: u64) -> Option<Self> {
        let is_encoded = headers
            .get(header::CONTENT_ENCODING)
            .is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"));
        if is_encoded {
            return None;
        }
        let kind = headers.get(header::CONTENT_TYPE)?.to_str().ok()?.split(';').next()?.trim();
        if kind.eq_ignore_ascii_case("text/event-stream") {
            Some(Self::Events(Events::new(cached_tokens)))
        } else if kind.eq_ignore_ascii_case("application/json") {
            Some(Self::Json { held: BytesMut::new(), cached_tokens, passing: false })
        } else {
            None
        }
    }

    fn push(&mut self, piece: Bytes) -> Bytes {
        match self {
            Self::Events(events) => events.push(&piece),
            Self::Json { passing: true, .. } => piece,
            Self::Json { held, passing, .. } => {
                held.extend_from_slice(&piece);
                // A longer response is passed on unchanged.
                if held.len() <= MAX_RESPONSE_BYTES {
                    return Bytes::new();
                }
                *passing = true;
                std::mem::take(held).freeze()
            }
        }
    }

    fn finish(&mut self) -> Bytes {
        match self {
            Self::Events(events) => events.finish(),
            Self::Json { held, cached_tokens, .. } => {
                let held = std::mem::take(held).freeze();
                usage::rewritten(&held, *cached_tokens).map_or(held, Bytes::from)
            }
        }
    }
}

// === impl RewritingBody ===

impl Body for RewritingBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            if self.ended {
                return Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))));
            }
            let ready = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.kind.push(data),
                    Err(frame) => {
                        self.trailers = frame.into_trailers().ok();
                        continue;
                    }
                },
                None => {
                    self.ended = true;
                    self.kind.finish()
                }
            };
            if !ready.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(ready))));
            }
        }
    }
}
