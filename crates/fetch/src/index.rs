//! The places of the records of files in the journal.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
};

/// Offsets by path. Only hashes of paths are kept, because there may be very many. Two paths may have the same hash in rare
/// cases, so the caller must check that the record at an offset is the wanted one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    offsets: HashMap<u64, u64>,
    hasher: RandomState,
}

// === impl Index ===

impl Index {
    pub(crate) fn insert(&mut self, path: &str, offset: u64) {
        self.offsets.insert(self.hasher.hash_one(path), offset);
    }

    pub(crate) fn remove(&mut self, path: &str) {
        self.offsets.remove(&self.hasher.hash_one(path));
    }

    pub(crate) fn get(&self, path: &str) -> Option<u64> {
        self.offsets.get(&self.hasher.hash_one(path)).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Returns all offsets in order, each with the hash of its path.
    pub(crate) fn by_offset(&self) -> Vec<(u64, u64)> {
        let mut offsets: Vec<_> = self.offsets.iter().map(|(hash, offset)| (*offset, *hash)).collect();
        offsets.sort_unstable();
        offsets
    }

    /// Replaces the offset of the path with this hash.
    pub(crate) fn replace(&mut self, hash: u64, offset: u64) {
        self.offsets.insert(hash, offset);
    }
}
