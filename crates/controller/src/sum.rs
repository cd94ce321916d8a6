//! Sums of objects: what was last seen of one, in eight bytes.

use std::{hash::Hasher, io};

use ahash::AHasher;
use serde::Serialize;

/// A number that tells what an object prints as from what others do; none if it cannot be printed. It holds within this process.
pub(crate) fn of<T: Serialize>(object: &T) -> Option<u64> {
    let mut sum = Sum(AHasher::default());
    serde_json::to_writer(&mut sum, object).ok()?;
    Some(sum.0.finish())
}

/// Sums up what is written to it.
struct Sum(AHasher);

// === impl Sum ===

impl io::Write for Sum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
