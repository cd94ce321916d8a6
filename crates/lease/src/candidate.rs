//! The loop that reads and writes a Lease.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    jiff::Timestamp,
};
use kube::{Api, Client, api::PostParams, runtime::watcher::Event};
use longboat_key::Key;
use longboat_watch::{Selection, has_code, text_of, text_of_watch};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::rules::{LeaseObservation, Move, Timing, released};

/// The time limit for releasing the lease. The process cannot exit before.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(3);
/// The part of the retry period after which a failed renewal is retried. client-go waits for the whole period, so it has at
/// most four attempts before it loses the lease.
const RENEW_RETRY_FRACTION: f64 = 0.25;
/// A wait is longer by up to this part of itself, so that candidates do not retry at the same moment.
const JITTER: f64 = 0.2;

/// A replica that takes part in the election.
pub struct Candidate {
    client: Client,
    api: Api<Lease>,
    lease: Key,
    identity: String,
    timing: Timing,
    /// Called with the time until which this replica leads, and with `None` once it no longer leads.
    on_change: Box<dyn Fn(Option<Instant>) + Send + Sync>,
    seen: Option<LeaseObservation>,
    /// The lease as this replica wrote it last. `None` after any sign that another replica has changed it.
    held: Option<Lease>,
    /// When the last successful renewal was sent.
    renewed: Option<Instant>,
}

/// The lease is lost, and another replica may lead by now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LeaseLost(String);

// === impl Candidate ===

impl Candidate {
    /// Creates a candidate for this lease. `holder` names this replica for users who look at the lease (by default the host
    /// name); a suffix in the lease makes the name unique. `on_change` is called first of all after each renewal, and with `None`
    /// when the lease is lost or released: then everything must stop that only the leader may do.
    pub fn new(
        client: Client,
        lease: Key,
        holder: &str,
        timing: Timing,
        on_change: impl Fn(Option<Instant>) + Send + Sync + 'static,
    ) -> Self {
        let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let holder = if holder.is_empty() { host().trim().to_owned() } else { holder.to_owned() };
        Self {
            api: Api::namespaced(client.clone(), &lease.namespace),
            client,
            lease,
            identity: format!("{holder}_{}", uuid::Uuid::new_v4()),
            timing,
            on_change: Box::new(on_change),
            seen: None,
            held: None,
            renewed: None,
        }
    }

    /// Waits until this replica leads. Returns false if `stop` is cancelled first. A watch reports when the lease becomes
    /// free. Without the right to watch, the lease is read once per retry period.
    pub async fn acquire(&mut self, stop: &CancellationToken) -> bool {
        let leases = Selection::of::<Lease>().within(Some(self.lease.namespace.as_deref()));
        let this = leases.fields(format!("metadata.name={}", self.lease.name));
        let mut changes = longboat_watch::decoded::<Lease>(&self.client, &this);
        let mut known_holder = None;
        while !stop.is_cancelled() {
            // Requests have no other time limit than the deadline: if a request were aborted earlier, the server might still
            // execute it.
            match timeout(self.timing.deadline, self.turn()).await {
                Ok(Ok(true)) => {
                    tracing::info!(
                        lease = &*self.lease.name,
                        namespace = &*self.lease.namespace,
                        identity = self.identity,
                        "Acquired the lease; this replica is the leader."
                    );
                    return true;
                }
                Ok(Ok(false)) => {
                    let holder = self.holder();
                    if holder != known_holder {
                        tracing::info!(
                            lease = &*self.lease.name,
                            namespace = &*self.lease.namespace,
                            holder,
                            "Another replica is the leader; waiting for its lease."
                        );
                        known_holder = holder;
                    }
                }
                Ok(Err(error)) => self.log_error(&error),
                Err(_) => tracing::warn!(
                    lease = &*self.lease.name,
                    "The API server did not return the lease in time."
                ),
            }
            let again = self.next_poll();
            loop {
                let event = tokio::select! {
                    () = stop.cancelled() => return false,
                    () = sleep_until(again) => break,
                    event = changes.next() => event,
                };
                match event {
                    Some(Ok(Event::Apply(lease) | Event::InitApply(lease))) => {
                        // An event may be older than what a request has read. That only delays a takeover: `turn` reads the lease
                        // itself.
                        if self.observe_lease(lease.spec.unwrap_or_default()) != Move::Wait {
                            break;
                        }
                    }
                    Some(Ok(Event::Delete(_))) => break,
                    Some(Ok(Event::Init | Event::InitDone)) => {}
                    Some(Err(error)) => {
                        tracing::debug!(error = %text_of_watch(&error), "The watch of the lease is interrupted.");
                    }
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
    pub async fn keep(&mut self) -> LeaseLost {
        let mut pause = self.timing.retry;
        loop {
            let Some(renewed) = self.renewed else { return LeaseLost("this replica never held it".into()) };
            let end = self.timing.ends(renewed);
            sleep_until(end.min(Instant::now() + pause)).await;
            // One request without an answer must not use up the whole renewal deadline.
            let enough = end.min(Instant::now() + self.timing.deadline / 2);
            pause = match timeout_at(enough, self.turn()).await {
                Ok(Ok(true)) => self.timing.retry,
                Ok(Ok(false)) => {
                    (self.on_change)(None);
                    let holder = self.holder().unwrap_or_else(|| "another replica".into());
                    return LeaseLost(format!("{holder} holds it"));
                }
                // Another client changed or deleted the lease: read it at once.
                Ok(Err(error)) if has_code(&error, 409) || has_code(&error, 404) => Duration::ZERO,
                Ok(Err(error)) => {
                    self.log_error(&error);
                    self.timing.retry.mul_f64(RENEW_RETRY_FRACTION)
                }
                Err(_) if Instant::now() < end => Duration::ZERO,
                Err(_) => {
                    (self.on_change)(None);
                    let seconds = self.timing.deadline.as_secs_f64();
                    return LeaseLost(format!("it was not renewed for {seconds} s"));
                }
            };
        }
    }

    /// Releases the lease, if it was ever held. Before that, reports that this replica no longer leads.
    pub async fn release(mut self) {
        (self.on_change)(None);
        if self.renewed.is_none() {
            return;
        }
        match timeout(RELEASE_TIMEOUT, self.release_lease()).await {
            Ok(Ok(())) => {
                tracing::info!(
                    lease = &*self.lease.name,
                    namespace = &*self.lease.namespace,
                    "Released the lease."
                );
            }
            Ok(Err(error)) => self.log_error(&error),
            Err(_) => {
                tracing::warn!(
                    lease = &*self.lease.name,
                    "Cannot release the lease in time; it will expire."
                );
            }
        }
    }

    async fn release_lease(&mut self) -> Result<(), kube::Error> {
        loop {
            let mut lease = match self.held.take() {
                Some(lease) => lease,
                None => match self.api.get_opt(&self.lease.name).await? {
                    Some(lease) => lease,
                    None => return Ok(()),
                },
            };
            let spec = lease.spec.take().unwrap_or_default();
            if spec.holder_identity.as_deref() != Some(&self.identity) {
                return Ok(());
            }
            lease.spec = Some(released(&spec, Timestamp::now()));
            match self.api.replace(&self.lease.name, &PostParams::default(), &lease).await {
                // It was written meanwhile, perhaps by a renewal whose response was lost.
                Err(error) if has_code(&error, 409) => {}
                other => return other.map(drop),
            }
        }
    }

    /// Reads the lease and takes or renews it if the rules allow. Returns whether this replica holds it.
    async fn turn(&mut self) -> Result<bool, kube::Error> {
        // Taken out, so that nothing is left to be believed if this future is dropped before the response to its write.
        let found = match self.held.take() {
            Some(held) => Some(held),
            None => self.api.get_opt(&self.lease.name).await?,
        };
        // Before the write: another replica counts from when it sees the write, so this one must not count from later.
        let sent = Instant::now();
        let written = if let Some(mut lease) = found {
            let spec = lease.spec.take().unwrap_or_default();
            if self.observe_lease(spec.clone()) == Move::Wait {
                return Ok(false);
            }
            lease.spec = Some(self.timing.claim(Some(&spec), &self.identity, Timestamp::now()));
            self.api.replace(&self.lease.name, &PostParams::default(), &lease).await?
        } else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(self.lease.name.as_deref().into()),
                    ..ObjectMeta::default()
                },
                spec: Some(self.timing.claim(None, &self.identity, Timestamp::now())),
            };
            self.api.create(&PostParams::default(), &lease).await?
        };
        self.observe_lease(written.spec.clone().unwrap_or_default());
        self.held = Some(written);
        self.renewed = Some(sent);
        (self.on_change)(Some(self.timing.ends(sent)));
        Ok(true)
    }

    fn observe_lease(&mut self, spec: LeaseSpec) -> Move {
        let now = Instant::now();
        let seen = LeaseObservation::update(self.seen.take(), spec, now);
        let next = seen.next(&self.identity, now);
        self.seen = Some(seen);
        next
    }

    /// When to read the lease again without a watch event: after the retry period, or earlier if the lease expires.
    fn next_poll(&self) -> Instant {
        let now = Instant::now();
        let usual = now + self.timing.retry.mul_f64(1.0 + JITTER * rand::random::<f64>());
        let over =
            // The rule is "longer than", so at its very end the lease is still held.
            self.seen.as_ref().map(|seen| seen.since + seen.lease_duration() + Duration::from_millis(1));
        over.filter(|over| *over > now).map_or(usual, |over| over.min(usual))
    }

    fn holder(&self) -> Option<String> {
        self.seen.as_ref().and_then(|seen| seen.spec.holder_identity.clone())
    }

    fn log_error(&self, error: &kube::Error) {
        // A conflict is normal: another candidate wrote first.
        if !has_code(error, 409) {
            let (namespace, error) = (&*self.lease.namespace, text_of(error));
            tracing::warn!(lease = &*self.lease.name, namespace, error, "Cannot read or write the lease.");
        }
    }
}
