//! Leader election: the loop that reads and writes the Lease. The rules are in [`crate::election`].

use std::{pin::pin, time::Duration};

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client,
    api::PostParams,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::{
    election::{Election, LEASE, Move, Seen, released},
    error::{Error, has_code, text_of},
    fence::Fence,
};

/// How long releasing the lease may take. The process cannot exit before.
const FAREWELL: Duration = Duration::from_secs(3);
/// After a failed renewal the next attempt comes after this part of the retry period. client-go waits for the whole period, so
/// it gets at most four attempts before it loses the lease.
const SOONER: f64 = 0.25;
/// A wait is longer by up to this part of itself, so that candidates do not retry at the same moment.
const JITTER: f64 = 0.2;

/// A replica that takes part in the election.
pub(crate) struct Candidate {
    api: Api<Lease>,
    namespace: String,
    identity: String,
    election: Election,
    /// Lets this replica's writes through only while it leads.
    fence: Fence,
    seen: Option<Seen>,
    /// The lease as this replica wrote it last. `None` once anything says that another replica changed it.
    held: Option<Lease>,
    /// When the last successful renewal was sent.
    renewed: Option<Instant>,
}

// === impl Candidate ===

impl Candidate {
    /// A candidate with an identity of its own. `client` must not go through the fence: the lease is written before
    /// the fence opens.
    pub(crate) fn new(client: Client, namespace: &str, election: Election, fence: Fence) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            identity: format!("{}_{}", host.trim(), uuid::Uuid::new_v4()),
            election,
            fence,
            seen: None,
            held: None,
            renewed: None,
        }
    }

    /// Waits until this replica leads. Returns false if `stop` is cancelled first. A watch says when the lease becomes free;
    /// without the right to watch, the lease is read once per retry period.
    pub(crate) async fn acquire(&mut self, stop: &CancellationToken) -> bool {
        let config = watcher::Config::default().fields(&format!("metadata.name={LEASE}"));
        let mut changes = pin!(watcher::watcher(self.api.clone(), config).default_backoff());
        let mut known_holder = None;
        while !stop.is_cancelled() {
            // The deadline is the only limit: the server may have received a request that we would cut off.
            match timeout(self.election.deadline, self.turn()).await {
                Ok(Ok(true)) => {
                    tracing::info!(
                        lease = LEASE,
                        namespace = self.namespace,
                        identity = self.identity,
                        "Holds the lease and leads."
                    );
                    return true;
                }
                Ok(Ok(false)) => {
                    let holder = self.holder();
                    if holder != known_holder {
                        tracing::info!(
                            lease = LEASE,
                            namespace = self.namespace,
                            holder,
                            "Another replica leads; waits for its lease."
                        );
                        known_holder = holder;
                    }
                }
                Ok(Err(error)) => self.complain(&error),
                Err(_) => tracing::warn!(lease = LEASE, "The API server does not say in time who leads."),
            }
            let again = self.next_look();
            loop {
                let event = tokio::select! {
                    () = stop.cancelled() => return false,
                    () = sleep_until(again) => break,
                    event = changes.next() => event,
                };
                match event {
                    Some(Ok(Event::Apply(lease) | Event::InitApply(lease))) => {
                        if self.notice(lease.spec.unwrap_or_default()) != Move::Wait {
                            break;
                        }
                    }
                    Some(Ok(Event::Delete(_))) => break,
                    Some(Ok(Event::Init | Event::InitDone)) => {}
                    Some(Err(error)) => tracing::debug!(%error, "The watch of the lease is interrupted."),
                    None => {
                        sleep_until(again).await;
                        break;
                    }
                }
            }
        }
        false
    }

    /// Renews the lease until it is lost, and returns why.
    pub(crate) async fn keep(&mut self) -> Error {
        let lost = |why: String| Error::LeaseLost { lease: LEASE, why };
        let mut pause = self.election.retry;
        loop {
            let Some(renewed) = self.renewed else { return lost("it was never held".into()) };
            let end = self.election.ends(renewed);
            sleep_until(end.min(Instant::now() + pause)).await;
            // One request without an answer must not use up the whole renewal deadline.
            let enough = end.min(Instant::now() + self.election.deadline / 2);
            pause = match timeout_at(enough, self.turn()).await {
                Ok(Ok(true)) => self.election.retry,
                Ok(Ok(false)) => {
                    self.fence.close();
                    return lost(format!(
                        "{} holds it",
                        self.holder().unwrap_or_else(|| "another replica".into())
                    ));
                }
                // Another client changed or deleted the lease: read it at once.
                Ok(Err(error)) if has_code(&error, 409) || has_code(&error, 404) => Duration::ZERO,
                Ok(Err(error)) => {
                    self.complain(&error);
                    self.election.retry.mul_f64(SOONER)
                }
                Err(_) if Instant::now() < end => Duration::ZERO,
                Err(_) => {
                    self.fence.close();
                    return lost(format!("it could not be renewed for {:?}", self.election.deadline));
                }
            };
        }
    }

    /// Releases the lease. The fence is closed first, so this replica writes nothing afterwards.
    pub(crate) async fn release(mut self) {
        self.fence.close();
        match timeout(FAREWELL, self.give_back()).await {
            Ok(Ok(())) => {
                tracing::info!(lease = LEASE, namespace = self.namespace, "Gave the lease back.");
            }
            Ok(Err(error)) => self.complain(&error),
            Err(_) => {
                tracing::warn!(lease = LEASE, "Cannot give the lease back in time; it runs out by itself.");
            }
        }
    }

    async fn give_back(&mut self) -> Result<(), kube::Error> {
        loop {
            let mut lease = match self.held.take() {
                Some(lease) => lease,
                None => match self.api.get_opt(LEASE).await? {
                    Some(lease) => lease,
                    None => return Ok(()),
                },
            };
            let spec = lease.spec.take().unwrap_or_default();
            if spec.holder_identity.as_deref() != Some(&self.identity) {
                return Ok(());
            }
            lease.spec = Some(released(&spec, Timestamp::now()));
            match self.api.replace(LEASE, &PostParams::default(), &lease).await {
                Err(error) if has_code(&error, 409) => {}
                other => return other.map(drop),
            }
        }
    }

    /// Reads the lease and takes or renews it if the rules allow. Returns whether this replica holds it.
    async fn turn(&mut self) -> Result<bool, kube::Error> {
        let found = match self.held.take() {
            Some(held) => Some(held),
            None => self.api.get_opt(LEASE).await?,
        };
        let asked = Instant::now();
        let written = if let Some(mut lease) = found {
            let spec = lease.spec.take().unwrap_or_default();
            if self.notice(spec.clone()) == Move::Wait {
                return Ok(false);
            }
            lease.spec = Some(self.election.claim(Some(&spec), &self.identity, Timestamp::now()));
            self.api.replace(LEASE, &PostParams::default(), &lease).await?
        } else {
            let lease = Lease {
                metadata: ObjectMeta { name: Some(LEASE.to_owned()), ..ObjectMeta::default() },
                spec: Some(self.election.claim(None, &self.identity, Timestamp::now())),
            };
            self.api.create(&PostParams::default(), &lease).await?
        };
        self.notice(written.spec.clone().unwrap_or_default());
        self.held = Some(written);
        self.renewed = Some(asked);
        self.fence.open_until(self.election.ends(asked));
        Ok(true)
    }

    fn notice(&mut self, spec: LeaseSpec) -> Move {
        let now = Instant::now();
        let seen = Seen::update(self.seen.take(), spec, now);
        let next = seen.next(&self.identity, now);
        self.seen = Some(seen);
        next
    }

    /// When to read the lease again without a watch event: after the retry period, or when the lease expires.
    fn next_look(&self) -> Instant {
        let now = Instant::now();
        let usual = now + self.election.retry.mul_f64(1.0 + JITTER * rand::random::<f64>());
        let over = self.seen.as_ref().map(|seen| seen.since + seen.lasts() + Duration::from_millis(1));
        over.filter(|over| *over > now).map_or(usual, |over| over.min(usual))
    }

    fn holder(&self) -> Option<String> {
        self.seen.as_ref().and_then(|seen| seen.spec.holder_identity.clone())
    }

    fn complain(&self, error: &kube::Error) {
        // A conflict is normal: another candidate wrote first.
        if !has_code(error, 409) {
            let (namespace, error) = (&self.namespace, text_of(error));
            tracing::warn!(lease = LEASE, namespace, error, "Cannot read or write the lease.");
        }
    }
}
