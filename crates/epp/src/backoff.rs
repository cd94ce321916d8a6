//! The waits between attempts of something that should run for ever.

use std::time::Duration;

/// The shortest and the longest wait. A wait doubles with each failure, until an attempt lasts as long as the longest wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    pub(crate) first: Duration,
    pub(crate) max: Duration,
}

// === impl Backoff ===

impl Backoff {
    /// Returns the wait after an attempt that lasted this long. `former` is the wait before this attempt.
    pub(crate) fn next(self, former: Duration, lasted: Duration) -> Duration {
        if lasted >= self.max { self.first } else { (former * 2).clamp(self.first, self.max) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_while_attempts_fail_at_once_and_is_short_again_after_one_that_lasted_long() {
        let backoff = Backoff { first: Duration::from_millis(500), max: Duration::from_secs(30) };
        let at_once = |former| backoff.next(former, Duration::from_secs(1));
        let waits: Vec<_> =
            std::iter::successors(Some(Duration::ZERO), |wait| Some(at_once(*wait))).take(9).collect();
        let seconds: Vec<_> = waits[1..].iter().map(Duration::as_secs_f64).collect();
        assert_eq!(seconds, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]);
        assert_eq!(backoff.next(backoff.max, Duration::from_hours(1)), backoff.first);
    }
}
