//! Collects a request's body in one piece of memory, which is then read and sent on.

use std::{mem, sync::Arc};

use bytes::Bytes;
use longboat_accept::{Budget, MemoryReservation};

use crate::buffer_pool;

/// A client may announce any length. Memory is reserved for at most this many times the bytes that have arrived.
const MAX_EXPECTED: usize = 8;

/// The part of a body that has arrived.
#[derive(Debug, Default)]
pub(super) struct Body {
    /// The length that the client announced.
    announced: usize,
    content: Content,
}

#[derive(Debug, Default)]
enum Content {
    #[default]
    Nothing,
    /// One chunk, not copied. Most bodies are that short.
    One(Bytes),
    /// Several chunks, copied together, with the memory for the buffer's capacity.
    More(Vec<u8>, MemoryReservation),
}

impl Body {
    /// Creates the body of a request that announces this length. 0 means that no length is announced.
    pub(super) fn new(announced: usize) -> Self {
        Self { announced, content: Content::Nothing }
    }

    /// Adds the next chunk and counts its memory. Returns `None` if there is no memory for it.
    pub(super) fn push(&mut self, chunk: Bytes, budget: &Arc<Budget>) -> Option<()> {
        if chunk.is_empty() {
            return Some(());
        }
        self.content = match mem::take(&mut self.content) {
            Content::Nothing => Content::One(budget.keep(chunk)?),
            Content::One(first) => {
                let (mut bytes, held) = self.room(first.len() + chunk.len(), 0, budget)?;
                bytes.extend_from_slice(&first);
                bytes.extend_from_slice(&chunk);
                Content::More(bytes, held)
            }
            Content::More(mut bytes, mut held) => {
                let needed = bytes.len() + chunk.len();
                if needed > bytes.capacity() {
                    let (mut larger, its) = self.room(needed, bytes.capacity(), budget)?;
                    larger.extend_from_slice(&bytes);
                    buffer_pool::give(mem::replace(&mut bytes, larger));
                    held = its;
                }
                bytes.extend_from_slice(&chunk);
                Content::More(bytes, held)
            }
        };
        Some(())
    }

    /// Allocates a buffer for `needed` bytes, and for the bytes that are expected to follow.
    fn room(
        &self,
        needed: usize,
        before: usize,
        budget: &Arc<Budget>,
    ) -> Option<(Vec<u8>, MemoryReservation)> {
        let expected = self.announced.min(needed.saturating_mul(MAX_EXPECTED));
        let wanted = if expected >= needed { expected } else { needed.max(before.saturating_mul(2)) };
        // If the memory for the expected bytes is not available, this allocates only the needed bytes.
        let (size, held) = match budget.hold(wanted) {
            Some(held) => (wanted, held),
            None => (needed, budget.hold(needed)?),
        };
        Some((buffer_pool::take(size), held))
    }

    /// Returns the whole body. Its memory counts until the last part is dropped.
    pub(super) fn whole(self) -> Bytes {
        match self.content {
            Content::Nothing => Bytes::new(),
            Content::One(chunk) => chunk,
            Content::More(bytes, held) => Bytes::from_owner(BodyBuffer { bytes, _held: held }),
        }
    }
}

/// The buffer of a whole body, which other bodies use when its last part is dropped.
struct BodyBuffer {
    bytes: Vec<u8>,
    _held: MemoryReservation,
}

impl AsRef<[u8]> for BodyBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for BodyBuffer {
    fn drop(&mut self) {
        buffer_pool::give(mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed(announced: usize, chunks: &[&'static [u8]], limit: usize) -> Option<(Bytes, usize)> {
        let budget = Budget::new(limit);
        let mut body = Body::new(announced);
        for chunk in chunks {
            body.push(Bytes::from_static(chunk), &budget)?;
        }
        let whole = body.whole();
        let held = budget.held();
        let copy = whole.slice(..whole.len() / 2);
        drop(whole);
        assert_eq!(budget.held(), held, "a part holds all of it");
        drop(copy);
        assert_eq!(budget.held(), 0);
        Some((whole_of(chunks), held))
    }

    fn whole_of(chunks: &[&'static [u8]]) -> Bytes {
        Bytes::from(chunks.concat())
    }

    #[test]
    fn a_body_is_what_came_whatever_its_length_was_said_to_be() {
        let chunks: [&[u8]; 4] = [b"first ", b"second ", b"", b"third"];
        for (announced, held) in [(18, 18), (0, 26), (7, 26), (1000, 104)] {
            let budget = Budget::new(1 << 20);
            let mut body = Body::new(announced);
            for chunk in chunks {
                body.push(Bytes::from_static(chunk), &budget).unwrap();
            }
            assert_eq!(budget.held(), held, "announced as {announced}");
            assert_eq!(body.whole(), whole_of(&chunks));
            assert_eq!(budget.held(), 0);
        }
    }

    #[test]
    fn a_body_that_does_not_fit_is_refused_and_one_that_just_fits_is_not() {
        let chunks: [&[u8]; 2] = [b"12345", b"67890"];
        // While the chunk is copied, both the chunk and the copy are counted.
        assert!(pushed(1000, &chunks, 15).is_some());
        assert!(pushed(10, &chunks, 14).is_none());
        assert_eq!(pushed(0, &[b"1234567890"], 10).map(|(_, held)| held), Some(10));
        assert!(pushed(0, &[b"1234567890"], 9).is_none());
    }
}
