//! Leader election: of several pickers only the holder of the lease is ready.
//!
//! Every look at the lease has a deadline. On a dead connection an answer never comes, and a leader that waits for it would
//! still lead when another one has taken the lease.

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
    /// How long after a renewal we lead.
    patience: Duration,
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
            patience: RENEW_DEADLINE,
        }
    }

    /// Takes part until `stop`, then gives the lease back at once.
    pub(crate) async fn run(self, core: Arc<Core>, stop: CancellationToken) {
        let mut seen: Option<Seen> = None;
        let mut renewed: Option<Instant> = None;
        loop {
            let began = Instant::now();
            let deadline = renewed.unwrap_or(began) + self.patience;
            let turn = tokio::select! {
                () = stop.cancelled() => break,
                turn = tokio::time::timeout_at(deadline, self.turn(&mut seen)) => turn,
            };
            match turn {
                Ok(Ok(true)) => {
                    if renewed.is_none() {
                        tracing::info!(lease = self.name, "Leading.");
                    }
                    // The lease counts from before it was asked for: others may have seen it at once.
                    renewed = Some(began);
                }
                Ok(Ok(false)) => renewed = None,
                // A conflict is somebody else's turn; other errors may pass before the deadline.
                Ok(Err(error)) => {
                    tracing::warn!(%error, lease = self.name, "Cannot take or renew the lease.");
                }
                Err(_) => tracing::warn!(
                    lease = self.name,
                    "The API server did not answer about the lease in time."
                ),
            }
            renewed = renewed.filter(|at| at.elapsed() < self.patience);
            core.lead(renewed.is_some());
            let wait = renewed.map_or(RETRY, |at| RETRY.min(self.patience.saturating_sub(at.elapsed())));
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(wait) => {}
            }
        }
        if renewed.is_none() {
            return;
        }
        match tokio::time::timeout(RETRY, self.give_back()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, lease = self.name, "Cannot give the lease back."),
            Err(_) => tracing::warn!(lease = self.name, "Cannot give the lease back in time."),
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
    use std::convert::Infallible;

    use kube::client::Body;

    use super::*;
    use crate::tests::support;

    /// An API server that makes one lease, and then never answers again.
    fn server_that_dies() -> Client {
        let mut requests = 0;
        let service = tower::service_fn(move |request: http::Request<Body>| {
            requests += 1;
            let number = requests;
            async move {
                let (status, body) = match number {
                    1 => (404, r#"{"kind":"Status","status":"Failure","reason":"NotFound","code":404}"#),
                    2 => (
                        201,
                        r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"x"}}"#,
                    ),
                    _ => std::future::pending().await,
                };
                let _ = request;
                let response =
                    http::Response::builder().status(status).body(Body::from(body.as_bytes().to_vec()));
                Ok::<_, Infallible>(response.unwrap())
            }
        });
        Client::new(service, "ns")
    }

    #[tokio::test]
    async fn a_leader_that_gets_no_answer_stops_leading_before_its_lease_runs_out() {
        let core = support::core("");
        core.lead(false);
        support::with_endpoints(&core, 1);
        core.listening();
        let stop = CancellationToken::new();
        let mut candidate = Candidate::new(server_that_dies(), "ns", "pool", "pod");
        candidate.patience = Duration::from_millis(300);
        let running = tokio::spawn(candidate.run(core.clone(), stop.clone()));
        // Whoever waits for the answer that never comes fails here by not ending.
        while !core.is_serving() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        while core.is_serving() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.cancel();
        running.await.unwrap();
    }

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
