//! The number of a download's connections, and the size of the parts that each connection requests.
//!
//! When a process is killed, the bytes in its socket buffers are lost and must be sent again. If the network is faster than the
//! disk or the processor, a socket buffer holds several megabytes, up to a whole part. If the network is slow, the buffers are
//! empty. So a download starts with few connections, and opens another one only while each connection is slow. If there is
//! already a connection for each 512 MiB, each must be very slow. Parts are small: the requested parts are together at most a
//! 64th of the download.

use std::{convert::Infallible, sync::atomic::Ordering::Relaxed, time::Duration};

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::sleep,
};

use crate::progress::Counters;

/// Connections at the start of a download.
const INITIAL_CONNECTIONS: usize = 2;
/// Time between two decisions.
const SCALE_INTERVAL: Duration = Duration::from_millis(250);
/// Decisions in a second.
const INTERVALS_PER_SECOND: u64 = 4;
/// A connection that receives this many bytes per second is fast.
const FAST_RATE: u64 = 128 << 20;

/// A connection that receives fewer bytes per second is very slow.
const SLOW_RATE: u64 = 32 << 20;
/// One connection is enough for this many missing bytes, unless it is very slow.
const BYTES_PER_CONNECTION: u64 = 512 << 20;
/// Files up to this size fill no sockets, so they need no limit.
const SMALL_FILE_LIMIT: u64 = 1 << 20;

/// The smallest part of a file, in bytes.
const MIN_PART: u64 = 8 << 20;
/// The largest part of a file, in bytes.
const MAX_PART: u64 = 32 << 20;

/// The connections of one download.
pub(crate) struct Connections {
    free: Semaphore,
    /// The maximum number of connections.
    limit: usize,
    /// The number of connections above which each must be very slow.
    soft_limit: usize,
    /// The size of the parts of large files, in bytes.
    pub(crate) part: u64,
}

// === impl Connections ===

impl Connections {
    /// Creates the connections for files of these sizes.
    pub(crate) fn new(limit: usize, sizes: impl Iterator<Item = u64>) -> Self {
        let (sum, largest) =
            sizes.fold((0_u64, 0), |(sum, largest), size| (sum.saturating_add(size), size.max(largest)));
        let fitting =
            usize::try_from(sum / BYTES_PER_CONNECTION).unwrap_or(usize::MAX).max(INITIAL_CONNECTIONS);
        let soft_limit = if largest <= SMALL_FILE_LIMIT { limit } else { fitting };
        Self {
            free: Semaphore::new(INITIAL_CONNECTIONS.min(limit)),
            limit,
            soft_limit,
            part: (sum / 512).clamp(MIN_PART, MAX_PART),
        }
    }

    /// Waits for a free connection. Returns `None` if the semaphore is closed, which never happens.
    pub(crate) async fn next(&self) -> Option<SemaphorePermit<'_>> {
        self.free.acquire().await.ok()
    }

    /// Allows more connections while all of them are slow. Never returns.
    pub(crate) async fn allow_more_connections(&self, counters: &Counters) -> Infallible {
        let mut before = counters.received.load(Relaxed);
        for open in INITIAL_CONNECTIONS.min(self.limit)..self.limit {
            let rate = if open < self.soft_limit { FAST_RATE } else { SLOW_RATE };
            loop {
                sleep(SCALE_INTERVAL).await;
                let now = counters.received.load(Relaxed);
                let fast = rate / INTERVALS_PER_SECOND * open as u64;
                // `received` only grows: bytes that are lost are subtracted from `bytes_done`.
                let is_fast = now - before >= fast;
                before = now;
                if !is_fast {
                    break;
                }
            }
            self.free.add_permits(1);
        }
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Returns the number of connections after ten seconds of a download with this many bytes per second.
    async fn after(size: u64, bytes: u64) -> usize {
        let (connections, counters) = (Connections::new(8, [size].into_iter()), Counters::default());
        let arrive = async {
            for _ in 0..100 {
                counters.add_received(bytes / 10);
                sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::select! {
            never = connections.allow_more_connections(&counters) => match never {},
            () = arrive => connections.free.available_permits(),
        }
    }

    #[test]
    fn the_requested_parts_are_a_small_share_of_the_download() {
        for size in [1, 2, 3, 4, 8, 100].map(|gib| gib << 30) {
            let connections = Connections::new(8, [size].into_iter());
            let limit = connections.soft_limit.min(connections.limit) as u64;
            assert!(limit * connections.part <= size / 64, "{size}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn more_connections_are_opened_only_while_all_are_slow() {
        let large = 100 << 30;
        assert_eq!(after(large, 0).await, 8);
        assert_eq!(after(large, 50 * MIB).await, 8);
        assert_eq!(after(large, 2000 * MIB).await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_small_download_has_few_connections_unless_they_are_very_slow() {
        assert_eq!(after(2048 * MIB, 300 * MIB).await, 4);
        assert_eq!(after(100 * MIB, 100 * MIB).await, 2);
        assert_eq!(after(100 * MIB, 20 * MIB).await, 8);
        // Small files wait for answers most of the time, and fill no sockets.
        assert_eq!(after(MIB, 100 * MIB).await, 8);
    }
}
