//! A limit on memory that many requests share.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;

/// How many bytes all requests of a server may hold together.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    held: AtomicUsize,
}

/// A share of a [`Budget`], which goes back when this is dropped.
#[derive(Debug)]
pub struct Held {
    budget: Arc<Budget>,
    bytes: usize,
}

/// Bytes together with their share of the budget.
struct Counted {
    bytes: Bytes,
    _held: Held,
}

// === impl Budget ===

impl Budget {
    /// A budget of so many bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, held: AtomicUsize::new(0) })
    }

    /// The most bytes that may be held.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The bytes that are held now.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// A share of so many bytes; `None` when less than that is free.
    pub fn hold(self: &Arc<Self>, bytes: usize) -> Option<Held> {
        self.take(bytes)?;
        Some(Held { budget: Arc::clone(self), bytes })
    }

    fn take(&self, bytes: usize) -> Option<()> {
        let add = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok().map(drop)
    }

    /// The same bytes, which count as held until their last copy is dropped; `None` when there is no room for them.
    pub fn keep(self: &Arc<Self>, bytes: Bytes) -> Option<Bytes> {
        Some(self.hold(bytes.len())?.around(bytes))
    }
}

impl Held {
    /// Adds so many bytes to this share; `None` when less than that is free, and the share stays as it is.
    pub fn grow(&mut self, bytes: usize) -> Option<()> {
        self.budget.take(bytes)?;
        self.bytes += bytes;
        Some(())
    }

    /// These bytes, which this share is for until their last copy is dropped.
    pub fn around(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Counted { bytes, _held: self })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_until_their_last_copy_is_gone_and_what_does_not_fit_is_refused() {
        let budget = Budget::new(10);
        let kept = budget.keep(Bytes::from_static(b"123456")).unwrap();
        assert!(budget.keep(Bytes::from_static(b"12345")).is_none());
        assert_eq!(budget.held(), 6, "a refusal holds nothing");
        let tail = kept.slice(4..);
        drop(kept);
        assert_eq!((&tail[..], budget.held()), (&b"56"[..], 6));
        drop(tail);
        assert_eq!(budget.held(), 0);
        assert!(budget.hold(usize::MAX).is_none());
    }

    #[test]
    fn a_share_grows_as_far_as_there_is_room_and_goes_back_whole() {
        let budget = Budget::new(10);
        let mut held = budget.hold(0).unwrap();
        assert_eq!([held.grow(6), held.grow(5), held.grow(4)], [Some(()), None, Some(())]);
        assert_eq!(budget.held(), 10);
        drop(held);
        assert_eq!(budget.held(), 0);
    }
}
