//! The restart backoff of a container.
//!
//! The first restart is immediate. Each further restart waits twice as long as the previous one, from 10 s to 5 min. A
//! container that runs for 10 min resets the wait. Kubernetes: client-go/util/flowcontrol/backoff.go.

use std::time::Duration;

use tokio::time::Instant;

use crate::options::Timing;

/// The restart history of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Backoff {
    /// The wait before the next restart.
    wait: Duration,
    last_restart: Option<Instant>,
}

impl Backoff {
    /// Returns when a container that ended at `ended` may start again, and the whole wait.
    pub(crate) fn due(&self, ended: Instant, timing: &Timing) -> (Instant, Duration) {
        let wait = if self.is_over(ended, timing) { Duration::ZERO } else { self.wait };
        (ended + wait, wait)
    }

    /// Records a restart at `now` of a container that ended at `ended`.
    pub(crate) fn restarted(&mut self, ended: Instant, now: Instant, timing: &Timing) {
        let wait = if self.is_over(ended, timing) { Duration::ZERO } else { self.wait };
        self.wait = (wait * 2).clamp(timing.backoff_initial, timing.backoff_max);
        self.last_restart = Some(now);
    }

    fn is_over(&self, ended: Instant, timing: &Timing) -> bool {
        self.last_restart.is_some_and(|last| ended.saturating_duration_since(last) > timing.backoff_reset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_five_minutes_and_start_over_after_ten() {
        let timing = Timing::default();
        let mut backoff = Backoff::default();
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..8 {
            let (due, wait) = backoff.due(now, &timing);
            waits.push(wait.as_secs());
            backoff.restarted(now, due, &timing);
            now = due;
        }
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300]);
        let later = now + Duration::from_secs(601);
        assert_eq!(backoff.due(later, &timing).1, Duration::ZERO);
        backoff.restarted(later, later, &timing);
        assert_eq!(backoff.due(later, &timing).1.as_secs(), 10);
    }
}
