//! Flags of leader election.
//!
//! The lease itself shows who leads, since when, and how often that changed. Unlike client-go, no event repeats this, so that
//! a restart writes only the lease.

use std::time::Duration;

use longboat_lease::Timing;
use longboat_quantity::duration::text;

/// Settings of leader election.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct Election {
    /// Reconcile only while holding the Lease `llminferenceservice-kserve-controller-manager` in the namespace of the
    /// platform. Required with several replicas; all replicas serve webhooks.
    #[arg(
        long = "leader-elect",
        visible_alias = "enable-leader-election",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    pub enabled: bool,

    /// Time that other replicas wait for a leader that does not renew the lease.
    #[arg(long = "leader-elect-lease-duration", value_name = "DURATION", default_value = "15s", value_parser = longboat_quantity::duration::parse)]
    pub lease: Duration,

    /// Time that the leader tries to renew the lease before it gives up. Must be shorter than the lease duration.
    #[arg(long = "leader-elect-renew-deadline", value_name = "DURATION", default_value = "10s", value_parser = longboat_quantity::duration::parse)]
    pub deadline: Duration,

    /// Time between two attempts to acquire or renew the lease, and a quarter of it after a failed renewal. Must be shorter
    /// than the renew deadline.
    #[arg(long = "leader-elect-retry-period", value_name = "DURATION", default_value = "2s", value_parser = longboat_quantity::duration::parse)]
    pub retry: Duration,
}

/// Timings with which no leader could stay one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElectionError {
    /// If a lease expires before its holder gives up, it has two holders for a while.
    #[error(
        "--leader-elect-lease-duration={}: expected at least 1s, and more than --leader-elect-renew-deadline={}",
        text(*.lease), text(*.deadline)
    )]
    Lease {
        /// The lease.
        lease: Duration,
        /// The deadline.
        deadline: Duration,
    },
    /// One failed attempt would end the leader.
    #[error(
        "--leader-elect-renew-deadline={}: expected more than --leader-elect-retry-period={}, which must be above 0s",
        text(*.deadline), text(*.retry)
    )]
    Retry {
        /// The deadline.
        deadline: Duration,
        /// The period.
        retry: Duration,
    },
}

// === impl Election ===

impl Default for Election {
    fn default() -> Self {
        let Timing { lease, deadline, retry } = Timing::default();
        Self { enabled: false, lease, deadline, retry }
    }
}

impl Election {
    /// Checks whether these timings are consistent.
    pub(crate) fn check(&self) -> Result<(), ElectionError> {
        let Self { lease, deadline, retry, .. } = *self;
        // The API counts the lease in whole seconds.
        if lease <= deadline || lease.as_secs() == 0 {
            return Err(ElectionError::Lease { lease, deadline });
        }
        if deadline <= retry || retry.is_zero() {
            return Err(ElectionError::Retry { deadline, retry });
        }
        Ok(())
    }

    /// The timings, for a candidate.
    pub(crate) fn timing(&self) -> Timing {
        Timing { lease: self.lease, deadline: self.deadline, retry: self.retry }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn timings_with_which_there_would_be_two_leaders_or_none_are_refused() {
        let election = |lease, deadline, retry| Election {
            enabled: true,
            lease: seconds(lease),
            deadline: seconds(deadline),
            retry: seconds(retry),
        };
        assert_eq!(Election::default().check(), Ok(()));
        assert_eq!(election(3, 2, 1).check(), Ok(()));
        assert!(matches!(election(10, 10, 2).check(), Err(ElectionError::Lease { .. })));
        assert!(matches!(election(15, 2, 2).check(), Err(ElectionError::Retry { .. })));
        assert!(matches!(election(15, 10, 0).check(), Err(ElectionError::Retry { .. })));
    }
}
