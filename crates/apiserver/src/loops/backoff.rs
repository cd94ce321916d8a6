//! When a deletion is tried again that a webhook refuses.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

const FIRST_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_mins(1);

/// Objects that could not be deleted, by uid. The delay of each doubles with every refusal, as in Kubernetes' garbage collector:
/// each attempt calls the webhook.
#[derive(Debug, Default)]
pub(super) struct RefusedDeletions(HashMap<String, Retry>);

#[derive(Debug)]
struct Retry {
    at: Instant,
    delay: Duration,
}

// === impl RefusedDeletions ===

impl RefusedDeletions {
    /// Adds a refusal, after which the object waits.
    pub(super) fn add(&mut self, uid: &str, now: Instant) {
        let delay = self.0.get(uid).map_or(FIRST_DELAY, |retry| (retry.delay * 2).min(MAX_DELAY));
        self.0.insert(uid.to_owned(), Retry { at: now + delay, delay });
    }

    /// Whether an object may be deleted now: no deletion was refused, or its delay is over.
    pub(super) fn may_retry(&self, uid: &str, now: Instant) -> bool {
        self.0.get(uid).is_none_or(|retry| retry.at <= now)
    }

    /// Whether an object has waited long enough.
    pub(super) fn is_any_due(&self, now: Instant) -> bool {
        self.0.values().any(|retry| retry.at <= now)
    }

    /// Forgets the objects that `exists` does not confirm.
    pub(super) fn retain(&mut self, exists: impl Fn(&str) -> bool) {
        self.0.retain(|uid, _| exists(uid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_deletion_is_tried_again_after_a_delay_that_doubles_up_to_a_minute() {
        let mut refused = RefusedDeletions::default();
        let mut now = Instant::now();
        assert!(refused.may_retry("a", now) && !refused.is_any_due(now));
        for delay in [FIRST_DELAY, FIRST_DELAY * 2, FIRST_DELAY * 4] {
            refused.add("a", now);
            assert!(!refused.may_retry("a", now) && refused.may_retry("b", now));
            now += delay;
            assert!(refused.may_retry("a", now) && refused.is_any_due(now), "{delay:?}");
        }
        for _ in 0..20 {
            refused.add("a", now);
        }
        assert!(refused.may_retry("a", now + MAX_DELAY));
        refused.retain(|uid| uid == "b");
        assert!(refused.may_retry("a", now));
    }
}
