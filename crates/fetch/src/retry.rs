//! Decides whether and when to try again. A pure function of the failures so far.

use std::time::Duration;

/// The limits of retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetryPolicy {
    /// Attempts without any byte of progress.
    pub(crate) attempts: u32,
    /// Time without any byte of progress.
    pub(crate) time: Duration,
    /// Time for the first answer of a host. Set only if a person waits.
    pub(crate) first_answer: Option<Duration>,
}

/// Why an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// An HTTP status, and the pause that the server asks for.
    Status(u16, Option<Duration>),
    /// No connection, or a connection that broke, stalled or ended early.
    Connection,
    /// The host has never answered, and its time is over.
    Unanswered,
    /// A failure that another attempt cannot change.
    Final,
}

/// The longest pause, unless the server asks for a longer one.
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// The first pause.
const MIN_BACKOFF: Duration = Duration::from_millis(500);

/// Returns the pause before the next attempt. Returns `None` to give up. `attempt` counts the failures since the last progress,
/// from 1. `waited` is the time since then. `random` is between 0 and 1 and spreads the retries, so that replicas that failed
/// together do not retry together.
pub(crate) fn pause(
    cause: Cause,
    attempt: u32,
    waited: Duration,
    retries: RetryPolicy,
    random: f64,
) -> Option<Duration> {
    let retry_after = match cause {
        Cause::Connection => None,
        Cause::Status(408 | 425 | 429 | 500..=599, retry_after) => retry_after,
        Cause::Unanswered | Cause::Final | Cause::Status(..) => return None,
    };
    if attempt >= retries.attempts {
        return None;
    }
    let limit = MIN_BACKOFF.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(MAX_BACKOFF);
    let own = limit.mul_f64(0.5 + 0.5 * random.clamp(0.0, 1.0));
    // A server that asks for no pause gets a short one nevertheless, or all replicas would ask again at once.
    let pause = retry_after.map_or(own, |wait| wait.max(own.mul_f64(0.1)));
    (waited.saturating_add(pause) <= retries.time).then_some(pause)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryPolicy =
        RetryPolicy { attempts: 6, time: Duration::from_secs(100), first_answer: None };

    fn ask(cause: Cause, attempt: u32, waited: u64) -> Option<Duration> {
        pause(cause, attempt, Duration::from_secs(waited), POLICY, 1.0)
    }

    #[test]
    fn what_may_pass_is_tried_again_with_growing_pauses() {
        let pauses: Vec<_> = (1..7).map(|attempt| ask(Cause::Connection, attempt, 0)).collect();
        let millis = |n| Some(Duration::from_millis(n));
        assert_eq!(pauses, [millis(500), millis(1000), millis(2000), millis(4000), millis(8000), None]);
        for status in [408, 425, 429, 500, 503, 599] {
            assert!(ask(Cause::Status(status, None), 1, 0).is_some(), "{status}");
        }
        for status in [400, 401, 403, 404, 410, 416] {
            assert_eq!(ask(Cause::Status(status, None), 1, 0), None, "{status}");
        }
        assert_eq!(ask(Cause::Final, 1, 0), None);
        assert_eq!(ask(Cause::Unanswered, 1, 0), None);
    }

    #[test]
    fn a_server_says_how_long_but_not_longer_than_the_limit() {
        let busy = |seconds| Cause::Status(429, Some(Duration::from_secs(seconds)));
        assert_eq!(ask(busy(7), 1, 0), Some(Duration::from_secs(7)));
        assert_eq!(ask(busy(101), 1, 0), None);
        assert_eq!(ask(busy(7), 1, 95), None);
        assert_eq!(ask(busy(0), 1, 0), Some(Duration::from_millis(50)));
    }
}
