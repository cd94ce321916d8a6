//! The bytes of watches that their clients have not read yet. They are limited over all watches: when there are too many, the
//! connection whose bytes wait longest is closed. Its client reads on from the last revision that it has seen, and gets 410
//! if the window no longer has that. kube-apiserver closes slow watches, too.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Counts the bytes that wait.
#[derive(Debug)]
pub(crate) struct UnsentBytes {
    limit: usize,
    waiting: Mutex<UnsentQueue>,
}

#[derive(Debug, Default)]
struct UnsentQueue {
    bytes: usize,
    next: u64,
    /// By the order in which they were sent: the size of each chunk, and what closes its connection.
    chunks: BTreeMap<u64, (usize, CancellationToken)>,
}

/// Bytes that the connection frees when they are sent, or when it closes.
struct Chunk {
    bytes: Vec<u8>,
    id: u64,
    unsent: Arc<UnsentBytes>,
}

// === impl UnsentBytes ===

impl UnsentBytes {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, waiting: Mutex::default() }
    }

    /// Counts bytes until they are sent. `connection` closes their connection.
    pub(crate) fn count(self: &Arc<Self>, bytes: Vec<u8>, connection: &CancellationToken) -> Bytes {
        // The capacity is what the memory costs. The length may be smaller.
        let size = bytes.capacity();
        let mut slow = Vec::new();
        let id = {
            let mut waiting = self.waiting.lock();
            let id = waiting.next;
            waiting.next += 1;
            waiting.bytes += size;
            waiting.chunks.insert(id, (size, connection.clone()));
            while waiting.bytes > self.limit
                && let Some((_, (size, connection))) = waiting.chunks.pop_first()
            {
                waiting.bytes -= size;
                slow.push(connection);
            }
            id
        };
        // After the lock is released: cancelling wakes tasks, which drop their chunks and need the lock.
        for connection in slow {
            tracing::debug!("A connection is closed: its client reads its watches too slowly.");
            connection.cancel();
        }
        Bytes::from_owner(Chunk { bytes, id, unsent: Arc::clone(self) })
    }
}

// === impl Chunk ===

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let mut waiting = self.unsent.waiting.lock();
        if let Some((size, _)) = waiting.chunks.remove(&self.id) {
            waiting.bytes -= size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_that_waits_longest_is_closed_when_too_much_waits() {
        let unsent = Arc::new(UnsentBytes::new(100));
        let [slow, slower, fast] = [(); 3].map(|()| CancellationToken::new());
        let held = unsent.count(vec![0; 40], &slower);
        let other = unsent.count(vec![0; 40], &slow);
        for _ in 0..10 {
            drop(unsent.count(vec![0; 20], &fast));
        }
        assert!(!slow.is_cancelled() && !slower.is_cancelled());
        let more = unsent.count(vec![0; 40], &fast);
        assert!(slower.is_cancelled() && !slow.is_cancelled() && !fast.is_cancelled());
        drop((held, other, more));
        assert_eq!(unsent.waiting.lock().bytes, 0);
        assert!(unsent.waiting.lock().chunks.is_empty());
    }
}
