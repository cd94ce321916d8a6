//! A hash over a list of strings, for names and annotations.

use sha2::{Digest, Sha256};

/// A hash of several parts. Each part is hashed with its length, so different lists of parts cannot have the same input.
#[derive(Default)]
pub(crate) struct PartsHash(Sha256);

// === impl PartsHash ===

impl PartsHash {
    /// Adds a part.
    pub(crate) fn add(&mut self, part: &str) {
        self.0.update(part.len().to_le_bytes());
        self.0.update(part);
    }

    /// Returns the first 16 hexadecimal digits of the hash.
    pub(crate) fn end(self) -> String {
        format!("{:.16x}", self.0.finalize())
    }
}
