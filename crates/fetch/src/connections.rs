//! The connections of a download, and what each of them is asked for at a time.
//!
//! What is in the sockets of a killed process must be sent again. If the network is faster than the disk or the processor, a
//! socket holds several megabytes, and up to a whole part where the kernel allows it; if the network is slow, the sockets are
//! empty. So a download starts with few connections, and gets another one only as long as each of them is slow. Above one
//! connection for each 512 MiB, each must be very slow. The parts are small: together, those on the way are a 64th of the
//! download.

use std::{convert::Infallible, sync::atomic::Ordering::Relaxed, time::Duration};

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::sleep,
};

use crate::progress::Counters;

/// Connections at the start of a download.
const FIRST: usize = 2;
/// Time between two decisions.
const TICK: Duration = Duration::from_millis(250);
/// Decisions in a second.
const TICKS: u64 = 4;
/// A connection that brings this many bytes per second is fast.
const FAST: u64 = 128 << 20;

/// A connection that brings fewer bytes per second is very slow.
const VERY_SLOW: u64 = 32 << 20;
/// For so many missing bytes, one connection is enough unless it is very slow.
const BYTES: u64 = 512 << 20;
/// Files up to this size fill no sockets, so they need no limit.
const SMALL: u64 = 1 << 20;

/// The smallest part of a file that is asked for, in bytes.
const SMALLEST_PART: u64 = 8 << 20;
/// The largest part of a file that is asked for, in bytes.
const LARGEST_PART: u64 = 32 << 20;

/// The connections of one download.
pub(crate) struct Connections {
    free: Semaphore,
    /// The most connections.
    most: usize,
    /// The most connections that are not very slow.
    enough: usize,
    /// The size of the parts of large files, in bytes.
    pub(crate) part: u64,
}

// === impl Connections ===

impl Connections {
    /// Creates the connections for files of these sizes.
    pub(crate) fn new(most: usize, sizes: impl Iterator<Item = u64>) -> Self {
        let (sum, largest) =
            sizes.fold((0_u64, 0), |(sum, largest), size| (sum.saturating_add(size), size.max(largest)));
        let fitting = usize::try_from(sum / BYTES).unwrap_or(usize::MAX).max(FIRST);
        let enough = if largest <= SMALL { most } else { fitting };
        Self {
            free: Semaphore::new(FIRST.min(most)),
            most,
            enough,
            part: (sum / 512).clamp(SMALLEST_PART, LARGEST_PART),
        }
    }

    /// Waits for a connection. Returns `None` if there is no limit any more, which does not happen.
    pub(crate) async fn next(&self) -> Option<SemaphorePermit<'_>> {
        self.free.acquire().await.ok()
    }

    /// Allows more connections as long as they are slow. Never ends.
    pub(crate) async fn widen(&self, counters: &Counters) -> Infallible {
        let mut before = counters.arrived.load(Relaxed);
        for open in FIRST.min(self.most)..self.most {
            let enough = if open < self.enough { FAST } else { VERY_SLOW };
            loop {
                sleep(TICK).await;
                let now = counters.arrived.load(Relaxed);
                let fast = enough / TICKS * open as u64;
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

    /// Returns the connections that a download has after ten seconds, if each second brings so many bytes.
    async fn after(size: u64, bytes: u64) -> usize {
        let (connections, counters) = (Connections::new(8, [size].into_iter()), Counters::default());
        let arrive = async {
            for _ in 0..100 {
                counters.arrived(bytes / 10);
                sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::select! {
            never = connections.widen(&counters) => match never {},
            () = arrive => connections.free.available_permits(),
        }
    }

    #[test]
    fn the_parts_on_the_way_are_a_small_share_of_the_download() {
        for size in [1, 2, 3, 4, 8, 100].map(|gib| gib << 30) {
            let connections = Connections::new(8, [size].into_iter());
            let most = connections.enough.min(connections.most) as u64;
            assert!(most * connections.part <= size / 64, "{size}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_slow_connections_are_joined_by_more() {
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
