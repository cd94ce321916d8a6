//! The rules of the election: what to write into a lease, when to take it, and when it is lost.
//!
//! The rules are those of client-go, so that our replicas and the reference's respect each other. Nothing here reads a clock.
//! Times that other machines wrote are stored, but never compared with the local clock.

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::LeaseSpec, apimachinery::pkg::apis::meta::v1::MicroTime, jiff::Timestamp,
};
use tokio::time::Instant;

/// The time limits of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long other candidates wait for a leader that stops renewing. The API stores whole seconds.
    pub lease: Duration,
    /// How long the leader tries to renew the lease before it gives up. It must be shorter than `lease`, or there could be
    /// two leaders.
    pub deadline: Duration,
    /// The time between two attempts to take or renew the lease. It must be shorter than `deadline`, or one failed attempt
    /// would end the leadership.
    pub retry: Duration,
}

/// The next step of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// This replica holds the lease, and should renew it.
    Renew,
    /// The lease is free or expired, and this replica should take it.
    Take,
    /// Another replica holds the lease, so this replica should wait.
    Wait,
}

/// The last observed state of the lease.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LeaseObservation {
    pub(crate) spec: LeaseSpec,
    /// When the lease was first observed in this state, by the local clock.
    pub(crate) since: Instant,
}

// === impl Timing ===

impl Default for Timing {
    /// The timings of client-go.
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

impl Timing {
    /// When a leader must stop that renewed the lease last at `renewed`.
    pub(crate) fn ends(&self, renewed: Instant) -> Instant {
        renewed + self.deadline
    }

    /// The lease as its new or renewing holder writes it.
    pub(crate) fn claim(&self, before: Option<&LeaseSpec>, identity: &str, now: Timestamp) -> LeaseSpec {
        let ours = before.filter(|before| before.holder_identity.as_deref() == Some(identity));
        let transitions = before.and_then(|before| before.lease_transitions).unwrap_or_default();
        LeaseSpec {
            holder_identity: Some(identity.to_owned()),
            lease_duration_seconds: i32::try_from(self.lease.as_secs()).ok(),
            acquire_time: ours.and_then(|ours| ours.acquire_time.clone()).or(Some(MicroTime(now))),
            renew_time: Some(MicroTime(now)),
            lease_transitions: Some(
                transitions.saturating_add(i32::from(before.is_some() && ours.is_none())),
            ),
            ..before.cloned().unwrap_or_default()
        }
    }
}

// === impl LeaseObservation ===

impl LeaseObservation {
    /// Records the state of the lease at `now`. If the lease has not changed, `since` stays as it was.
    pub(crate) fn update(known: Option<Self>, spec: LeaseSpec, now: Instant) -> Self {
        match known {
            Some(known) if known.spec == spec => known,
            _ => Self { spec, since: now },
        }
    }

    /// Returns the next step of the replica `identity` at `now`.
    pub(crate) fn next(&self, identity: &str, now: Instant) -> Move {
        match self.spec.holder_identity.as_deref() {
            Some(holder) if holder == identity => Move::Renew,
            None | Some("") => Move::Take,
            Some(_) if now.saturating_duration_since(self.since) > self.lease_duration() => Move::Take,
            Some(_) => Move::Wait,
        }
    }

    /// How long the holder may be silent, according to the lease itself.
    pub(crate) fn lease_duration(&self) -> Duration {
        let seconds = self.spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        // Other programs may write leases without it.
        seconds.map_or(Timing::default().lease, Duration::from_secs)
    }
}

/// The lease after its release: any replica may take it at once.
pub(crate) fn released(held: &LeaseSpec, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        ..held.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(holder: &str) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            lease_transitions: Some(3),
            acquire_time: Some(MicroTime(at(100))),
            renew_time: Some(MicroTime(at(200))),
            ..LeaseSpec::default()
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_lease_is_renewed_by_its_holder_and_taken_by_others_when_it_is_free_or_has_run_out() {
        let since = Instant::now();
        let next =
            |spec: LeaseSpec, after: u64| LeaseObservation { spec, since }.next("me", since + seconds(after));
        assert_eq!(next(held("me"), 0), Move::Renew);
        assert_eq!(next(held("me"), 1000), Move::Renew);
        assert_eq!(next(held(""), 0), Move::Take);
        assert_eq!(next(LeaseSpec::default(), 0), Move::Take);
        assert_eq!(next(held("other"), 15), Move::Wait);
        assert_eq!(next(held("other"), 16), Move::Take);
        let silent = LeaseSpec { lease_duration_seconds: None, ..held("other") };
        assert_eq!(next(silent.clone(), 15), Move::Wait);
        assert_eq!(next(silent, 16), Move::Take);
    }

    #[test]
    fn only_our_clock_counts_and_it_starts_anew_with_each_change() {
        let start = Instant::now();
        // The times in the lease are long past or far in the future, and must not matter.
        let mut seen = LeaseObservation::update(None, held("other"), start);
        assert_eq!(seen.next("me", start + seconds(10)), Move::Wait);
        seen = LeaseObservation::update(Some(seen), held("other"), start + seconds(10));
        assert_eq!(seen.since, start);
        let renewed = LeaseSpec { renew_time: Some(MicroTime(at(201))), ..held("other") };
        seen = LeaseObservation::update(Some(seen), renewed, start + seconds(14));
        assert_eq!(seen.next("me", start + seconds(29)), Move::Wait);
        assert_eq!(seen.next("me", start + seconds(30)), Move::Take);
    }

    #[test]
    fn a_change_of_holders_is_counted_and_a_renewal_is_not() {
        let timing = Timing::default();
        let first = timing.claim(None, "me", at(300));
        assert_eq!((first.lease_transitions, first.lease_duration_seconds), (Some(0), Some(15)));
        let claimed = timing.claim(Some(&held("other")), "me", at(300));
        assert_eq!(claimed.lease_transitions, Some(4));
        assert_eq!(claimed.acquire_time, Some(MicroTime(at(300))));
        let renewed = timing.claim(Some(&held("me")), "me", at(300));
        let expected = LeaseSpec { renew_time: Some(MicroTime(at(300))), ..held("me") };
        assert_eq!(renewed, expected);
    }

    #[test]
    fn a_lease_that_is_given_back_is_anybodys_at_once_and_keeps_its_count() {
        let back = released(&held("me"), at(300));
        assert_eq!((back.lease_transitions, back.lease_duration_seconds), (Some(3), Some(1)));
        let now = Instant::now();
        assert_eq!(LeaseObservation { spec: back, since: now }.next("other", now), Move::Take);
    }
}
