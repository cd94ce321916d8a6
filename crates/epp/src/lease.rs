//! Leader election: of several pickers only the holder of the lease is ready (contract 04 §2.4).

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::core::Core;

// client-go's usual timings.
const DURATION: Duration = Duration::from_secs(15);
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);

/// A candidate for the lease of a pool.
pub(crate) struct Candidate {
    pub(crate) leases: Api<Lease>,
    pub(crate) name: String,
    pub(crate) identity: String,
}

/// What is known about the lease.
struct Seen {
    spec: LeaseSpec,
    /// When it looked like this first, by our clock: clocks of other machines are not to be trusted.
    since: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Move {
    /// We hold it: say so again.
    Renew,
    /// Nobody holds it any more.
    Take,
    /// Somebody else does.
    Wait,
}

impl Candidate {
    /// For a pool, under a name of our own that no other process has.
    pub(crate) fn new(client: Client, namespace: &str, pool: &str, pod: &str) -> Self {
        Self {
            leases: Api::namespaced(client, namespace),
            name: format!("epp-{namespace}-{pool}.llm-d.ai"),
            identity: format!("{pod}_{}", uuid::Uuid::new_v4()),
        }
    }

    /// Takes part until `stop`, then gives the lease back at once.
    pub(crate) async fn run(self, core: Arc<Core>, stop: CancellationToken) {
        let mut seen: Option<Seen> = None;
        let mut renewed: Option<Instant> = None;
        loop {
            match self.turn(&mut seen).await {
                Ok(true) => {
                    if renewed.is_none() {
                        tracing::info!(lease = self.name, "Leading.");
                    }
                    renewed = Some(Instant::now());
                }
                Ok(false) => renewed = None,
                // A conflict is somebody else's turn; other errors may pass before the deadline.
                Err(error) => tracing::warn!(%error, lease = self.name, "Cannot take or renew the lease."),
            }
            core.lead(renewed.is_some_and(|at| at.elapsed() < RENEW_DEADLINE));
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(RETRY) => {}
            }
        }
        if renewed.is_some()
            && let Err(error) = self.give_back().await
        {
            tracing::warn!(%error, lease = self.name, "Cannot give the lease back.");
        }
    }

    /// One look at the lease; whether we hold it after that.
    async fn turn(&self, seen: &mut Option<Seen>) -> Result<bool, kube::Error> {
        let Some(mut lease) = self.leases.get_opt(&self.name).await? else {
            let lease = Lease {
                metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
                spec: Some(self.claim(None)),
            };
            self.leases.create(&PostParams::default(), &lease).await?;
            return Ok(true);
        };
        let spec = lease.spec.take().unwrap_or_default();
        let now = Instant::now();
        let since = match seen {
            Some(known) if known.spec == spec => known.since,
            _ => now,
        };
        let decided = decide(&spec, &self.identity, now.saturating_duration_since(since));
        let held = decided != Move::Wait;
        if held {
            lease.spec = Some(self.claim(Some(&spec)));
            self.leases.replace(&self.name, &PostParams::default(), &lease).await?;
        }
        *seen = Some(Seen { spec, since });
        Ok(held)
    }

    fn claim(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let ours = before.filter(|before| before.holder_identity.as_deref() == Some(&self.identity));
        let transitions = before.and_then(|before| before.lease_transitions).unwrap_or_default();
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            acquire_time: ours.and_then(|ours| ours.acquire_time.clone()).or_else(|| Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(transitions + i32::from(before.is_some() && ours.is_none())),
            ..LeaseSpec::default()
        }
    }

    async fn give_back(&self) -> Result<(), kube::Error> {
        let mut lease = self.leases.get(&self.name).await?;
        if let Some(spec) = &mut lease.spec
            && spec.holder_identity.as_deref() == Some(&self.identity)
        {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            self.leases.replace(&self.name, &PostParams::default(), &lease).await?;
        }
        Ok(())
    }
}

/// `unchanged`: how long the lease has looked like this.
fn decide(spec: &LeaseSpec, identity: &str, unchanged: Duration) -> Move {
    match spec.holder_identity.as_deref() {
        Some(holder) if holder == identity => Move::Renew,
        None | Some("") => Move::Take,
        Some(_) => {
            let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
            let lasts = seconds.map_or(DURATION, Duration::from_secs);
            if unchanged > lasts { Move::Take } else { Move::Wait }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_renewed_by_its_holder_and_taken_when_it_has_run_out() {
        let held = |holder: &str| LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            ..LeaseSpec::default()
        };
        let (fresh, old) = (Duration::from_secs(1), Duration::from_secs(16));
        assert_eq!(decide(&held("me"), "me", old), Move::Renew);
        assert_eq!(decide(&held("other"), "me", fresh), Move::Wait);
        assert_eq!(decide(&held("other"), "me", old), Move::Take);
        assert_eq!(decide(&held(""), "me", fresh), Move::Take);
        assert_eq!(decide(&LeaseSpec::default(), "me", fresh), Move::Take);
    }
}
