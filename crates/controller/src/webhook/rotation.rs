//! Stores the controller's own CA in a Secret that all replicas share, and in memory while there is no Secret.

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures::StreamExt;
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, api::PostParams, runtime::watcher::Event};
use longboat_api::{
    labels::{PART_OF, PART_OF_VALUE},
    names::WEBHOOK_CA,
};
use longboat_key::Namespace;
use longboat_tls::{KeyPair, LeafRequest, ReplaceableConfig, ServerOptions, TlsError};
use longboat_watch::{Selection, has_code, text_of, text_of_watch};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    authority::{Authority, Lifetimes},
    inject::Bundle,
};

/// Type of the Secret.
const SECRET_TYPE: &str = "kubernetes.io/tls";
/// Attempts at a write that conflicts.
const MAX_ATTEMPTS: u32 = 10;
/// Longest wait after a failure.
const MAX_BACKOFF: Duration = Duration::from_mins(1);
/// Longest sleep until a date. A timer stops while a machine is suspended, so the clock is read at least this often.
const MAX_SLEEP: Duration = Duration::from_hours(1);

/// A clock that tests can replace.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Keeps the CA and the serving certificate up to date.
pub(super) struct CertificateRotator {
    api: Api<Secret>,
    namespace: Namespace,
    names: LeafRequest,
    lifetimes: Lifetimes,
    clock: Clock,
    authority: Authority,
    /// Whether the Secret holds this CA.
    shared: bool,
    /// Whether no Secret can be written, because the namespace or the right is missing.
    alone: bool,
    served: ReplaceableConfig,
    /// The CA that signed the serving certificate, and the time in which that certificate is served. The clock may go back.
    leaf: (String, Range<SystemTime>),
    bundle: watch::Sender<Bundle>,
    failures: u32,
}

/// The result of reading and writing the Secret.
enum RotationOutcome {
    Settled,
    /// Another replica wrote it first.
    Again,
    Failed(kube::Error),
}

// === impl CertificateRotator ===

impl CertificateRotator {
    /// Starts with a new CA. The one in the Secret, if any, replaces it.
    pub(super) fn new(
        client: &Client,
        namespace: Namespace<&str>,
        names: LeafRequest,
        options: &ServerOptions,
        lifetimes: Lifetimes,
        clock: Clock,
        bundle: watch::Sender<Bundle>,
    ) -> Result<Self, TlsError> {
        let now = clock();
        let authority = Authority::new(now, &lifetimes)?;
        let (pair, served): (KeyPair, _) = authority.leaf(&names, now, &lifetimes)?;
        Ok(Self {
            api: Api::namespaced(client.clone(), &namespace),
            namespace: namespace.to_shared(),
            names,
            lifetimes,
            clock,
            leaf: (authority.signing(), served),
            authority,
            shared: false,
            alone: false,
            served: ReplaceableConfig::new(&pair, options)?,
            bundle,
            failures: 0,
        })
    }

    /// The certificate to serve with.
    pub(super) fn config(&self) -> Arc<rustls::ServerConfig> {
        self.served.config()
    }

    /// Keeps everything up to date until cancelled.
    pub(super) async fn run(mut self, cancel: CancellationToken) {
        let secrets = Selection::of::<Secret>().within(Some(self.namespace.as_deref()));
        let this = secrets.fields(format!("metadata.name={WEBHOOK_CA}"));
        let mut events = longboat_watch::events(&self.api.clone().into_client(), &this);
        loop {
            let wait = match self.settle().await {
                Ok(wait) => wait,
                Err(error) => {
                    tracing::error!(%error, "Cannot issue a certificate for the webhooks.");
                    MAX_BACKOFF
                }
            };
            let again = tokio::time::Instant::now() + wait;
            loop {
                let event = tokio::select! {
                    () = cancel.cancelled() => return,
                    () = tokio::time::sleep_until(again) => break,
                    event = events.next() => event,
                };
                match event {
                    None => return,
                    Some(Ok(Event::Init | Event::InitApply(_))) => {}
                    Some(Ok(_)) => break,
                    Some(Err(error)) => {
                        tracing::debug!(error = %text_of_watch(&error), "The watch of the webhooks' CA is interrupted.");
                    }
                }
            }
        }
    }

    /// Rotates what is due, and returns how long to wait until the next rotation.
    async fn settle(&mut self) -> Result<Duration, TlsError> {
        let mut attempts = 0;
        let failure = loop {
            attempts += 1;
            match self.rotate().await? {
                RotationOutcome::Settled => break None,
                RotationOutcome::Again if attempts < MAX_ATTEMPTS => {}
                RotationOutcome::Again => break Some(None),
                RotationOutcome::Failed(error) => break Some(Some(error)),
            }
        };
        let mut retry = None;
        if let Some(error) = failure {
            self.failures += 1;
            if let Some(error) = error {
                self.alone = !self.shared && (has_code(&error, 403) || has_code(&error, 404));
                self.report(&error);
            }
            retry = Some(MAX_BACKOFF.min(Duration::from_secs(1 << (self.failures - 1).min(6))));
        } else {
            self.failures = 0;
        }
        let now = (self.clock)();
        // A CA that only this replica has is rotated in memory; a shared one in `rotate`, with the Secret.
        if !self.shared {
            self.authority.advance(now, &self.lifetimes)?;
        }
        self.serve(now)?;
        self.announce();
        let due = self.authority.due(&self.lifetimes)?.min(self.leaf.1.end);
        let until = due.duration_since(now).unwrap_or(Duration::from_secs(1)).min(MAX_SLEEP);
        Ok(retry.map_or(until, |retry| retry.min(until)))
    }

    /// Reads the CA from the Secret, or writes ours there. If two replicas write at the same time, the API server refuses
    /// one of them; that one reads again and takes the other's CA.
    async fn rotate(&mut self) -> Result<RotationOutcome, TlsError> {
        let found = match self.api.get_opt(WEBHOOK_CA).await {
            Ok(found) => found,
            Err(error) => return Ok(RotationOutcome::Failed(error)),
        };
        let Some(found) = found else {
            self.authority.advance((self.clock)(), &self.lifetimes)?;
            let written = self.api.create(&PostParams::default(), &self.secret()).await;
            return Ok(self.written(written, "Created a CA for the webhooks."));
        };
        let stored = Authority::read(found.data.as_ref().unwrap_or(&std::collections::BTreeMap::new()));
        let damaged = stored.is_err();
        match stored {
            Ok(stored) => self.authority = stored,
            // API servers already trust the CA in memory, so writing it into the Secret locks no API server out.
            Err(error) => {
                tracing::warn!(
                    namespace = &*self.namespace, secret = WEBHOOK_CA, %error,
                    "The CA of the webhooks in the Secret is invalid; replacing it."
                );
            }
        }
        if !self.authority.advance((self.clock)(), &self.lifetimes)? && !damaged {
            self.shared = true;
            return Ok(RotationOutcome::Settled);
        }
        // Labels and annotations that others have set stay.
        let secret = Secret { data: Some(self.authority.data()), ..found };
        let written = self.api.replace(WEBHOOK_CA, &PostParams::default(), &secret).await;
        Ok(self.written(written, "Renewed the CA of the webhooks."))
    }

    fn written(&mut self, written: Result<Secret, kube::Error>, news: &str) -> RotationOutcome {
        match written {
            Ok(_) => {
                tracing::info!(namespace = &*self.namespace, secret = WEBHOOK_CA, "{news}");
                self.shared = true;
                RotationOutcome::Settled
            }
            Err(error) if has_code(&error, 409) => RotationOutcome::Again,
            Err(error) => RotationOutcome::Failed(error),
        }
    }

    fn secret(&self) -> Secret {
        let label = (PART_OF.to_owned(), PART_OF_VALUE.to_owned());
        Secret {
            metadata: ObjectMeta {
                name: Some(WEBHOOK_CA.to_owned()),
                namespace: Some(self.namespace.as_deref().into()),
                labels: Some([label].into()),
                ..ObjectMeta::default()
            },
            type_: Some(SECRET_TYPE.to_owned()),
            data: Some(self.authority.data()),
            ..Secret::default()
        }
    }

    /// Serves with a certificate of the CA that signs now.
    fn serve(&mut self, now: SystemTime) -> Result<(), TlsError> {
        let signing = self.authority.signing();
        if self.leaf.0 == signing && self.leaf.1.contains(&now) {
            return Ok(());
        }
        let (pair, served) = self.authority.leaf(&self.names, now, &self.lifetimes)?;
        self.served.replace(&pair)?;
        self.leaf = (signing, served);
        tracing::info!("Issued a new certificate for the webhooks.");
        Ok(())
    }

    /// Publishes the bundle to API servers, once the CA is settled.
    fn announce(&self) {
        let certain = self.shared || self.alone;
        let bundle = self.authority.bundle();
        self.bundle.send_if_modified(|known| {
            let changed = certain && known.as_deref() != Some(&bundle);
            if changed {
                *known = Some(bundle.into());
            }
            changed
        });
    }

    /// Logs the first failure only; the following ones say nothing new.
    fn report(&self, error: &kube::Error) {
        let (namespace, error) = (&*self.namespace, text_of(error));
        if self.failures == 1 {
            tracing::warn!(
                namespace,
                secret = WEBHOOK_CA,
                error,
                "Cannot write the CA of the webhooks to its Secret; will retry. Until then, replicas \
                 cannot share the CA, and it is lost when this process ends. The controller needs the \
                 verbs get, list, watch, create and update of Secrets."
            );
        } else {
            tracing::debug!(
                namespace,
                secret = WEBHOOK_CA,
                error,
                "Still cannot write the CA of the webhooks to its Secret."
            );
        }
    }
}
