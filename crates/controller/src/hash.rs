//! Hashes of objects, to detect whether an object has changed.

use std::{hash::Hasher, io};

use ahash::AHasher;
use serde::Serialize;

/// Returns a hash of an object's JSON, or `None` if the object cannot be serialized. It is only valid within this process.
pub(crate) fn of<T: Serialize>(object: &T) -> Option<u64> {
    let mut hash = Hash(AHasher::default());
    serde_json::to_writer(&mut hash, object).ok()?;
    Some(hash.0.finish())
}

/// Hashes what is written to it.
struct Hash(AHasher);

// === impl Hash ===

impl io::Write for Hash {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
