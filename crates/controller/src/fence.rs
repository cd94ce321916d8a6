//! Blocks the writes of a process that is not the leader, or no longer.

use std::sync::Arc;

use parking_lot::RwLock;
use tokio::time::Instant;

/// The time until which this process may write. Clones share one state.
///
/// A leader that loses the lease stops at once. But a process that was suspended resumes in the middle of its work, so each
/// write checks the clock.
#[derive(Clone, Debug)]
pub(crate) struct Fence {
    open: Arc<RwLock<Option<Instant>>>,
}

/// A write was blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("request not sent: this replica does not hold the lease")]
pub(crate) struct FenceClosed;

// === impl Fence ===

impl Fence {
    /// Creates a fence that blocks all writes until [`Fence::set`].
    pub(crate) fn closed() -> Self {
        Self { open: Arc::default() }
    }

    /// Allows writes until `end`. `None` blocks them from now on.
    pub(crate) fn set(&self, end: Option<Instant>) {
        *self.open.write() = end;
    }

    /// Whether a write may go through now.
    pub(crate) fn check(&self) -> Result<(), FenceClosed> {
        let open = *self.open.read();
        if open.is_some_and(|end| Instant::now() < end) { Ok(()) } else { Err(FenceClosed) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn writes_pass_while_the_lease_lasts_and_not_a_moment_longer() {
        let fence = Fence::closed();
        assert_eq!(fence.check(), Err(FenceClosed));
        fence.set(Some(Instant::now() + Duration::from_secs(10)));
        assert_eq!(fence.clone().check(), Ok(()));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(fence.check(), Err(FenceClosed));
        fence.set(Some(Instant::now() + Duration::from_secs(10)));
        fence.set(None);
        assert_eq!(fence.check(), Err(FenceClosed));
    }
}
