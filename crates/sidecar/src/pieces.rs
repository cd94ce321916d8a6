//! A body in pieces, so that a large value of a request is not copied when other values change.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};

/// The pieces in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pieces(VecDeque<Bytes>);

// === impl Pieces ===

impl Pieces {
    pub(crate) fn push(&mut self, piece: impl Into<Bytes>) {
        let piece = piece.into();
        if !piece.is_empty() {
            self.0.push_back(piece);
        }
    }

    /// Returns all pieces as one. Copies if there are several.
    pub(crate) fn whole(&self) -> Bytes {
        match self.0.as_slices() {
            ([], _) => Bytes::new(),
            ([only], []) => only.clone(),
            _ => {
                let mut whole = BytesMut::with_capacity(self.0.iter().map(Bytes::len).sum());
                self.0.iter().for_each(|piece| whole.extend_from_slice(piece));
                whole.freeze()
            }
        }
    }
}

impl From<Bytes> for Pieces {
    fn from(whole: Bytes) -> Self {
        let mut pieces = Self::default();
        pieces.push(whole);
        pieces
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
    }
}
