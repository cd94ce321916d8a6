//! How often a pool met its limits, and what the status of its service says about it. Pure functions.

use std::time::Duration;

use tokio::time::Instant;

/// How long a limit is reported after the last refusal. A pool that meets it again and again is reported once, so its slice is not
/// written for each refusal.
const REPORTED_FOR: Duration = Duration::from_mins(5);

/// The limits of a pool, in the order of its refusals.
pub(super) const LIMITS: [&str; 2] = ["requests", "bytes"];

/// What a pool may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct PoolLimits {
    pub(super) requests: usize,
    pub(super) bytes: usize,
    /// Whether a flag of the service's picker asks for these bytes, and not the shared picker's.
    pub(super) own_bytes: bool,
}

/// The refusals of a pool.
#[derive(Debug, Clone, Default)]
pub(super) struct Refusals([Count; 2]);

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    total: u64,
    last: Option<Instant>,
}

// === impl Refusals ===

impl Refusals {
    /// Adds refusals for want of a free request, and of bytes.
    pub(super) fn add(&mut self, more: [u64; 2], now: Instant) {
        for (count, more) in self.0.iter_mut().zip(more).filter(|(_, more)| *more > 0) {
            *count = Count { total: count.total + more, last: Some(now) };
        }
    }

    /// Reports refusals of the past no longer, because the limits are others now.
    pub(super) fn forget(&mut self) {
        for count in &mut self.0 {
            count.last = None;
        }
    }

    /// All refusals, by limit.
    pub(super) fn totals(&self) -> [u64; 2] {
        self.0.map(|count| count.total)
    }

    /// Returns the limits that the pool has met lately. The text is the same as long as the limits are.
    pub(super) fn reported(&self, allowed: PoolLimits, now: Instant) -> Option<String> {
        let PoolLimits { requests, bytes, own_bytes } = allowed;
        let bytes_flag = if own_bytes {
            "--max-request-bytes-in-flight of the service's picker"
        } else {
            "--max-pool-bytes of the shared picker"
        };
        let texts = [
            format!("{requests} open requests (flag --max-pool-requests of the shared picker)"),
            format!("{bytes} bytes of requests in memory (flag {bytes_flag})"),
        ];
        let met = self.0.iter().zip(texts).filter(|(count, _)| {
            count.last.is_some_and(|last| now.saturating_duration_since(last) < REPORTED_FOR)
        });
        let met: Vec<String> = met.map(|(_, text)| text).collect();
        (!met.is_empty()).then(|| met.join(", and at most "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_reported_until_nothing_was_refused_for_five_minutes() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut refusals = Refusals::default();
        let allowed = PoolLimits { requests: 8, bytes: 1024, own_bytes: false };
        assert_eq!(refusals.reported(allowed, start), None);

        refusals.add([2, 0], at(0));
        refusals.add([0, 1], at(100));
        let requests = "8 open requests (flag --max-pool-requests of the shared picker)";
        let bytes = "1024 bytes of requests in memory (flag --max-pool-bytes of the shared picker)";
        assert_eq!(refusals.reported(allowed, at(299)), Some(format!("{requests}, and at most {bytes}")));
        assert_eq!(refusals.reported(allowed, at(300)), Some(bytes.to_owned()));
        refusals.add([0, 5], at(350));
        refusals.add([0, 0], at(600));
        assert_eq!(refusals.reported(allowed, at(649)), Some(bytes.to_owned()), "the text has not changed");
        assert_eq!(refusals.reported(allowed, at(650)), None);
        assert_eq!(refusals.totals(), [2, 6]);

        let own = PoolLimits { own_bytes: true, ..allowed };
        let of_service =
            "1024 bytes of requests in memory (flag --max-request-bytes-in-flight of the service's picker)";
        assert_eq!(refusals.reported(own, at(649)), Some(of_service.to_owned()));
        refusals.forget();
        assert_eq!((refusals.reported(own, at(649)), refusals.totals()), (None, [2, 6]));
    }
}
