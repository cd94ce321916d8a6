//! A memory limit that many requests share.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use bytes::Bytes;

/// Limits how many bytes all requests of a server may hold together.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    held: AtomicUsize,
    refusals: AtomicU64,
}

/// A reserved part of a [`Budget`]. Dropping it releases the bytes.
#[derive(Debug)]
pub struct MemoryReservation {
    budget: Arc<Budget>,
    bytes: usize,
}

/// Bytes together with their reservation.
struct ReservedBytes {
    bytes: Bytes,
    _held: MemoryReservation,
}

// === impl Budget ===

impl Budget {
    /// Creates a budget of this many bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, held: AtomicUsize::new(0), refusals: AtomicU64::new(0) })
    }

    /// Returns the maximum number of reserved bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the number of bytes that are reserved now.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Returns how often too few bytes were free since the last call.
    pub fn take_refusals(&self) -> u64 {
        self.refusals.swap(0, Ordering::Relaxed)
    }

    /// Reserves this many bytes. Returns `None` if fewer bytes are free.
    pub fn hold(self: &Arc<Self>, bytes: usize) -> Option<MemoryReservation> {
        self.take(bytes)?;
        Some(MemoryReservation { budget: Arc::clone(self), bytes })
    }

    fn take(&self, bytes: usize) -> Option<()> {
        // Relaxed, here and below: only the sum counts, and no other memory depends on it.
        let add = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= self.limit);
        let added = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        if added.is_err() {
            self.refusals.fetch_add(1, Ordering::Relaxed);
        }
        added.ok().map(drop)
    }

    /// Returns the same bytes with a reservation, which ends when the last copy of the bytes is dropped. Returns `None` if
    /// there is no room for them.
    pub fn keep(self: &Arc<Self>, bytes: Bytes) -> Option<Bytes> {
        Some(self.hold(bytes.len())?.around(bytes))
    }
}

impl MemoryReservation {
    /// Adds this many bytes to the reservation. Returns `None`, and changes nothing, if fewer bytes are free.
    pub fn grow(&mut self, bytes: usize) -> Option<()> {
        self.budget.take(bytes)?;
        self.bytes += bytes;
        Some(())
    }

    /// Changes the reservation to this many bytes. Returns `None`, and changes nothing, if fewer bytes are free.
    pub fn resize(&mut self, bytes: usize) -> Option<()> {
        if let Some(additional) = bytes.checked_sub(self.bytes) {
            return self.grow(additional);
        }
        self.budget.held.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        self.bytes = bytes;
        Some(())
    }

    /// Returns these bytes with this reservation, which ends when the last copy of the bytes is dropped.
    pub fn around(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(ReservedBytes { bytes, _held: self })
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl AsRef<[u8]> for ReservedBytes {
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
        let reserved = budget.keep(Bytes::from_static(b"123456")).unwrap();
        assert!(budget.keep(Bytes::from_static(b"12345")).is_none());
        assert_eq!(budget.held(), 6, "a refusal holds nothing");
        let tail = reserved.slice(4..);
        drop(reserved);
        assert_eq!((&tail[..], budget.held()), (&b"56"[..], 6));
        drop(tail);
        assert_eq!(budget.held(), 0);
        assert!(budget.hold(usize::MAX).is_none());
        assert_eq!([budget.take_refusals(), budget.take_refusals()], [2, 0]);
    }

    #[test]
    fn a_share_grows_as_far_as_there_is_room_and_goes_back_whole() {
        let budget = Budget::new(10);
        let mut held = budget.hold(0).unwrap();
        assert_eq!([held.grow(6), held.grow(5), held.grow(4)], [Some(()), None, Some(())]);
        assert_eq!(budget.held(), 10);
        assert_eq!([held.resize(3), held.resize(11), held.resize(8)], [Some(()), None, Some(())]);
        assert_eq!(budget.held(), 8);
        drop(held);
        assert_eq!(budget.held(), 0);
    }
}
