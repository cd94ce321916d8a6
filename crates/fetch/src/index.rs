//! Where the records of files are.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
};

/// Offsets by paths, of which only hashes are held: there may be very many. Two paths may, once in a very long while, have one hash, so
/// whoever follows an offset looks whether the record is the one that was looked for.
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

    /// All offsets in order, each with the hash of its path.
    pub(crate) fn by_offset(&self) -> Vec<(u64, u64)> {
        let mut offsets: Vec<_> = self.offsets.iter().map(|(hash, offset)| (*offset, *hash)).collect();
        offsets.sort_unstable();
        offsets
    }

    /// Replaces the offset of a path with this hash.
    pub(crate) fn replace(&mut self, hash: u64, offset: u64) {
        self.offsets.insert(hash, offset);
    }
}
