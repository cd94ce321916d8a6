//! The schedule of probes, and the meaning of their results.
//!
//! A cluster probes a container after `initialDelaySeconds`, then every `periodSeconds`. These numbers are made for model
//! servers that load for minutes. On one machine they would be most of the time to the first token. So until a probe of a
//! container has succeeded once, the container is also probed in between, at first every few milliseconds. Such an early
//! probe can only help: its success counts, its failure does not. After the first success, the periods of the manifest
//! apply.

use std::time::Duration;

use k8s_openapi::api::core::v1::Probe;
use tokio::time::Instant;

/// The schedule of one probe of one container instance.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    period: Duration,
    success_threshold: u32,
    failure_threshold: u32,
    /// The time of the next regular probe, whose success and failure both count.
    regular: Instant,
    early: Option<EarlyProbe>,
    successes: u32,
    failures: u32,
    verdict: Option<bool>,
}

#[derive(Debug, Clone)]
struct EarlyProbe {
    next: Instant,
    wait: Duration,
}

/// The effect of one result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Observation {
    /// Whether the result counts. A failure that counts gets an event.
    pub(crate) counted: bool,
    /// The new verdict, if it has changed.
    pub(crate) changed: Option<bool>,
}

impl Schedule {
    /// Creates the schedule of `probe` for an instance that started at `started`. Early probes start after `early`.
    pub(crate) fn new(probe: &Probe, started: Instant, early: Option<Duration>) -> Self {
        let seconds = |value: Option<i32>, default: u64| {
            Duration::from_secs(value.and_then(|value| u64::try_from(value).ok()).unwrap_or(default))
        };
        let threshold = |value: Option<i32>, default: u32| {
            value.and_then(|value| u32::try_from(value).ok()).filter(|value| *value > 0).unwrap_or(default)
        };
        Self {
            period: seconds(probe.period_seconds.filter(|period| *period > 0), 10),
            success_threshold: threshold(probe.success_threshold, 1),
            failure_threshold: threshold(probe.failure_threshold, 3),
            regular: started + seconds(probe.initial_delay_seconds, 0),
            early: early.map(|wait| EarlyProbe { next: started + wait, wait }),
            successes: 0,
            failures: 0,
            verdict: None,
        }
    }

    /// Returns the time of the next probe.
    pub(crate) fn next(&self) -> Instant {
        self.early.as_ref().map_or(self.regular, |early| early.next.min(self.regular))
    }

    /// Handles the result of a probe that was sent at `sent` and answered at `now`.
    pub(crate) fn observe(&mut self, sent: Instant, now: Instant, success: bool) -> Observation {
        let regular = sent >= self.regular;
        if regular {
            self.regular = sent + self.period;
        }
        if success {
            self.failures = 0;
            self.successes = self.successes.saturating_add(1);
        } else if regular {
            self.successes = 0;
            self.failures = self.failures.saturating_add(1);
        }
        let verdict = if success && self.successes >= self.success_threshold {
            Some(true)
        } else if !success && regular && self.failures >= self.failure_threshold {
            Some(false)
        } else {
            None
        };
        if verdict == Some(true) && self.early.take().is_some() {
            self.regular = sent + self.period;
        }
        if let Some(early) = &mut self.early {
            early.next = now + early.wait;
            early.wait = (early.wait * 3 / 2).min(self.period).min(Duration::from_secs(1));
        }
        let changed = verdict.filter(|verdict| self.verdict != Some(*verdict));
        self.verdict = verdict.or(self.verdict);
        Observation { counted: success || regular, changed }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn probe(value: Value) -> Probe {
        serde_json::from_value(value).unwrap()
    }

    fn secs(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn an_early_success_counts_inside_the_initial_delay() {
        let start = Instant::now();
        let probe = probe(json!({"initialDelaySeconds": 30, "periodSeconds": 10}));
        let mut schedule = Schedule::new(&probe, start, Some(Duration::from_millis(20)));
        let first = schedule.next();
        assert_eq!(first, start + Duration::from_millis(20));
        assert_eq!(schedule.observe(first, first, false), Observation { counted: false, changed: None });
        let second = schedule.next();
        assert_eq!(second, start + Duration::from_millis(40));
        assert_eq!(schedule.observe(second, second, true).changed, Some(true));
        assert_eq!(schedule.next(), second + secs(10), "after the first pass the period holds");
    }

    #[test]
    fn early_failures_never_fail_a_container() {
        let start = Instant::now();
        let probe = probe(json!({"initialDelaySeconds": 5, "periodSeconds": 10, "failureThreshold": 2}));
        let mut schedule = Schedule::new(&probe, start, Some(Duration::from_millis(20)));
        let mut failed_at = None;
        let mut counted = 0;
        while failed_at.is_none() {
            let at = schedule.next();
            let seen = schedule.observe(at, at, false);
            counted += u32::from(seen.counted);
            failed_at = seen.changed.map(|verdict| (verdict, at - start));
        }
        assert_eq!(counted, 2);
        let (verdict, after) = failed_at.unwrap();
        assert!(!verdict);
        assert!(after >= secs(15) && after < secs(17), "{after:?}");
    }

    #[test]
    fn thresholds_need_answers_in_a_row() {
        let start = Instant::now();
        let probe = probe(json!({"periodSeconds": 1, "successThreshold": 2, "failureThreshold": 2}));
        let mut schedule = Schedule::new(&probe, start, None);
        let verdicts: Vec<_> = [true, false, true, true, true, false, true, false, false, false]
            .into_iter()
            .map(|answer| {
                let at = schedule.next();
                schedule.observe(at, at, answer).changed
            })
            .collect();
        let expected = [None, None, None, Some(true), None, None, None, None, Some(false), None];
        assert_eq!(verdicts, expected);
    }

    #[test]
    fn defaults_are_those_of_kubernetes() {
        let start = Instant::now();
        let mut schedule = Schedule::new(&Probe::default(), start, None);
        assert_eq!(schedule.next(), start);
        schedule.observe(start, start, false);
        assert_eq!(schedule.next(), start + secs(10));
        assert_eq!((schedule.success_threshold, schedule.failure_threshold), (1, 3));
    }
}
