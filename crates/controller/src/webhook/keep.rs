//! Keeping the own CA: in a Secret that all replicas share, and in this process while there is none.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures::StreamExt;
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client,
    api::PostParams,
    runtime::{WatchStreamExt, watcher},
};
use longboat_tls::{KeyPair, LeafRequest, Replaceable, ServerOptions, TlsError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    authority::{Authority, Lifetimes},
    inject::Bundle,
};
use crate::error::{has_code, text_of};

/// Name of the Secret. Not that of the reference's serving certificate, which belongs to cert-manager where both run.
pub(crate) const SECRET: &str = "llmisvc-webhook-ca";
/// Type of the Secret.
const TYPE: &str = "kubernetes.io/tls";
/// Attempts at a write that others get in between of.
const ATTEMPTS: u32 = 10;
/// Longest wait after a failure.
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// Longest sleep until a date: a timer stands still while a machine is suspended, the date does not.
const NAP: Duration = Duration::from_hours(1);

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Keeps the own CA, and the certificate that is served.
pub(super) struct Keeper {
    api: Api<Secret>,
    namespace: String,
    names: LeafRequest,
    lifetimes: Lifetimes,
    clock: Clock,
    authority: Authority,
    /// Whether the Secret holds it.
    shared: bool,
    /// Whether no Secret can hold it: there is no such namespace, or no right to write there.
    alone: bool,
    served: Replaceable,
    /// The CA that signed what is served, and when that has to be replaced.
    leaf: (String, SystemTime),
    bundle: watch::Sender<Bundle>,
    failures: u32,
}

/// What a look at the Secret came to.
enum Look {
    Settled,
    /// Somebody else wrote it in between.
    Again,
    Failed(kube::Error),
}

// === impl Keeper ===

impl Keeper {
    /// Starts with a CA that nobody else knows: what the Secret holds replaces it.
    pub(super) fn new(
        client: &Client,
        namespace: &str,
        names: LeafRequest,
        options: &ServerOptions,
        lifetimes: Lifetimes,
        clock: Clock,
        bundle: watch::Sender<Bundle>,
    ) -> Result<Self, TlsError> {
        let now = clock();
        let authority = Authority::new(now, &lifetimes)?;
        let (pair, due): (KeyPair, _) = authority.leaf(&names, now, &lifetimes)?;
        Ok(Self {
            api: Api::namespaced(client.clone(), namespace),
            namespace: namespace.to_owned(),
            names,
            lifetimes,
            clock,
            leaf: (authority.signing(), due),
            authority,
            shared: false,
            alone: false,
            served: Replaceable::new(&pair, options)?,
            bundle,
            failures: 0,
        })
    }

    /// What to serve with.
    pub(super) fn config(&self) -> Arc<rustls::ServerConfig> {
        self.served.config()
    }

    /// Keeps everything up to date until cancelled.
    pub(super) async fn run(mut self, cancel: CancellationToken) {
        let config = watcher::Config::default().fields(&format!("metadata.name={SECRET}"));
        let mut events = std::pin::pin!(watcher::watcher(self.api.clone(), config).default_backoff());
        loop {
            let wait = match self.settle().await {
                Ok(wait) => wait,
                Err(error) => {
                    tracing::error!(%error, "Cannot make a certificate for the webhooks.");
                    LONGEST_WAIT
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
                    Some(Ok(watcher::Event::Init | watcher::Event::InitApply(_))) => {}
                    Some(Ok(_)) => break,
                    Some(Err(error)) => {
                        tracing::debug!(%error, "The watch of the webhooks' CA is interrupted.");
                    }
                }
            }
        }
    }

    /// Does what is due; how long to wait until something else is.
    async fn settle(&mut self) -> Result<Duration, TlsError> {
        let mut attempts = 0;
        let failure = loop {
            attempts += 1;
            match self.look().await? {
                Look::Settled => break None,
                Look::Again if attempts < ATTEMPTS => {}
                Look::Again => break Some(None),
                Look::Failed(error) => break Some(Some(error)),
            }
        };
        let mut retry = None;
        if let Some(error) = failure {
            self.failures += 1;
            if let Some(error) = error {
                self.alone = !self.shared && (has_code(&error, 403) || has_code(&error, 404));
                self.report(&error);
            }
            retry = Some(LONGEST_WAIT.min(Duration::from_secs(1 << (self.failures - 1).min(6))));
        } else {
            self.failures = 0;
        }
        let now = (self.clock)();
        if !self.shared {
            self.authority.advance(now, &self.lifetimes)?;
        }
        self.serve(now)?;
        self.announce();
        let due = self.authority.due(&self.lifetimes)?.min(self.leaf.1);
        let until = due.duration_since(now).unwrap_or(Duration::from_secs(1)).min(NAP);
        Ok(retry.map_or(until, |retry| retry.min(until)))
    }

    /// Brings the Secret and this process together. Of two replicas that write at once one is refused, looks again, and
    /// finds what the other one wrote.
    async fn look(&mut self) -> Result<Look, TlsError> {
        let found = match self.api.get_opt(SECRET).await {
            Ok(found) => found,
            Err(error) => return Ok(Look::Failed(error)),
        };
        let Some(found) = found else {
            self.authority.advance((self.clock)(), &self.lifetimes)?;
            let written = self.api.create(&PostParams::default(), &self.secret()).await;
            return Ok(self.written(written, "Made a CA for the webhooks."));
        };
        let kept = Authority::read(found.data.as_ref().unwrap_or(&std::collections::BTreeMap::new()));
        let damaged = kept.is_err();
        match kept {
            Ok(kept) => self.authority = kept,
            // What this process holds is what it served until now, so nobody is locked out.
            Err(error) => {
                tracing::warn!(
                    namespace = self.namespace, secret = SECRET, %error,
                    "What the Secret keeps of the webhooks' CA cannot be used and is replaced."
                );
            }
        }
        if !self.authority.advance((self.clock)(), &self.lifetimes)? && !damaged {
            self.shared = true;
            return Ok(Look::Settled);
        }
        // What others put on it stays.
        let secret = Secret { data: Some(self.authority.data()), ..found };
        let written = self.api.replace(SECRET, &PostParams::default(), &secret).await;
        Ok(self.written(written, "Renewed the CA of the webhooks."))
    }

    fn written(&mut self, written: Result<Secret, kube::Error>, news: &str) -> Look {
        match written {
            Ok(_) => {
                tracing::info!(namespace = self.namespace, secret = SECRET, "{news}");
                self.shared = true;
                Look::Settled
            }
            Err(error) if has_code(&error, 409) => Look::Again,
            Err(error) => Look::Failed(error),
        }
    }

    fn secret(&self) -> Secret {
        let label = ("app.kubernetes.io/part-of".to_owned(), "llminferenceservice".to_owned());
        Secret {
            metadata: ObjectMeta {
                name: Some(SECRET.to_owned()),
                namespace: Some(self.namespace.clone()),
                labels: Some([label].into()),
                ..ObjectMeta::default()
            },
            type_: Some(TYPE.to_owned()),
            data: Some(self.authority.data()),
            ..Secret::default()
        }
    }

    /// Presents a certificate of the CA that signs now.
    fn serve(&mut self, now: SystemTime) -> Result<(), TlsError> {
        let signing = self.authority.signing();
        if self.leaf.0 == signing && now < self.leaf.1 {
            return Ok(());
        }
        let (pair, due) = self.authority.leaf(&self.names, now, &self.lifetimes)?;
        self.served.replace(&pair)?;
        self.leaf = (signing, due);
        tracing::info!("Issued a new certificate for the webhooks.");
        Ok(())
    }

    /// Has API servers trust the CA, once it is certain which one it is.
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

    /// Says it the first time; later failures are no news.
    fn report(&self, error: &kube::Error) {
        let (namespace, error) = (&self.namespace, text_of(error));
        if self.failures == 1 {
            tracing::warn!(
                namespace,
                secret = SECRET,
                error,
                "The CA of the webhooks cannot be kept in its Secret: it lasts as long as this process, and replicas \
                 cannot share it. It is tried again; needed are get, list, watch, create and update of Secrets."
            );
        } else {
            tracing::debug!(
                namespace,
                secret = SECRET,
                error,
                "The CA of the webhooks still cannot be kept."
            );
        }
    }
}
