//! Writes the CA bundle into the webhook configurations and CRDs, so that API servers trust this server.

use std::{sync::Arc, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use futures::StreamExt;
use k8s_openapi::{
    api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    core::ApiResource,
    runtime::watcher::Event,
};
use longboat_admission::{Subject, configurations};
use longboat_api::v1alpha2::GROUP;
use longboat_watch::{ReceivedObject, Selection, has_code, text_of, text_of_watch, watch_has_code};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use super::ca_bundle::{CaBundleChange, CaBundleTarget};
use crate::readiness::{CaConsumer, Check, Readiness};

/// The bundle that API servers trust, as PEM. `None` until the CA is known.
pub(super) type Bundle = Option<Arc<str>>;

/// Writes to one object within [`WRITE_COUNT_WINDOW`] that are made without a wait. More of them mean that another writer undoes ours.
const UNTHROTTLED_WRITES: u32 = 5;
/// Writes are counted from zero again when an object was not written for this long.
const WRITE_COUNT_WINDOW: Duration = Duration::from_mins(1);
/// Longest wait before a write or a new attempt.
const MAX_BACKOFF: Duration = Duration::from_mins(1);

/// Keeps the bundle of one object up to date.
pub(super) struct Injector {
    client: Client,
    /// Selects the object.
    selection: Selection,
    name: String,
    kind: String,
    check: Check,
    readiness: Readiness,
    bundle: watch::Receiver<Bundle>,
    object: State,
    writes: u32,
    last_write: Option<Instant>,
    /// When to read the object again without a watch event: after a failure, or after too many writes.
    retry: Option<Instant>,
    /// The last report, so that the same one is logged once.
    last_message: Option<String>,
}

/// The object as last seen.
enum State {
    Unknown,
    Absent,
    Invisible,
    Present(Box<CaBundleTarget>),
}

// === impl State ===

impl State {
    fn of(object: &ReceivedObject) -> Self {
        // Only metadata is typed, and an API server stores no object with other metadata.
        object.read().map_or(Self::Unknown, |stanza| Self::Present(Box::new(stanza)))
    }
}

// === impl CaConsumer ===

impl CaConsumer {
    /// All such objects.
    pub(crate) const ALL: [Self; 5] = [
        Self::MutatingService,
        Self::ValidatingService,
        Self::ValidatingConfig,
        Self::ServiceCrd,
        Self::ConfigCrd,
    ];

    fn name(self) -> String {
        match self {
            Self::MutatingService | Self::ValidatingService => configurations::name(Subject::Service),
            Self::ValidatingConfig => configurations::name(Subject::Config),
            Self::ServiceCrd => format!("{}.{GROUP}", Subject::Service.resource()),
            Self::ConfigCrd => format!("{}.{GROUP}", Subject::Config.resource()),
        }
    }

    fn resource(self) -> ApiResource {
        match self {
            Self::MutatingService => ApiResource::erase::<MutatingWebhookConfiguration>(&()),
            Self::ValidatingService | Self::ValidatingConfig => {
                ApiResource::erase::<ValidatingWebhookConfiguration>(&())
            }
            Self::ServiceCrd | Self::ConfigCrd => ApiResource::erase::<CustomResourceDefinition>(&()),
        }
    }
}

impl std::fmt::Display for CaConsumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.resource().kind, self.name())
    }
}

// === impl Injector ===

impl Injector {
    pub(super) fn new(
        client: &Client,
        trusting: CaConsumer,
        readiness: Readiness,
        bundle: watch::Receiver<Bundle>,
    ) -> Self {
        let check = Check::Trust(trusting);
        readiness.expect(check);
        let resource = trusting.resource();
        let (name, kind) = (trusting.name(), resource.kind.clone());
        Self {
            client: client.clone(),
            selection: Selection::of_resource(resource).fields(format!("metadata.name={name}")),
            name,
            kind,
            check,
            readiness,
            bundle,
            object: State::Unknown,
            writes: 0,
            last_write: None,
            retry: None,
            last_message: None,
        }
    }

    /// Keeps the object up to date until cancelled.
    pub(super) async fn run(mut self, cancel: CancellationToken) {
        let mut events = longboat_watch::events(&self.client, &self.selection);
        let mut listed = State::Absent;
        loop {
            let wait = async {
                match self.retry {
                    Some(retry) => tokio::time::sleep_until(retry).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = cancel.cancelled() => return,
                () = wait => self.retry = None,
                // The rotator, which holds the sender, ends only with the process.
                changed = self.bundle.changed() => if changed.is_err() { return },
                event = events.next() => match event {
                    None => return,
                    Some(Ok(Event::Init)) => { listed = State::Absent; continue }
                    Some(Ok(Event::InitApply(object))) => { listed = State::of(&object); continue }
                    Some(Ok(Event::InitDone)) => self.object = std::mem::replace(&mut listed, State::Absent),
                    Some(Ok(Event::Apply(object))) => self.object = State::of(&object),
                    Some(Ok(Event::Delete(_))) => self.object = State::Absent,
                    Some(Err(error)) => {
                        tracing::debug!(kind = self.kind, name = self.name, error = %text_of_watch(&error), "The watch is interrupted.");
                        let is_refused = [401, 403].iter().any(|code| watch_has_code(&error, *code));
                        if matches!(self.object, State::Unknown) && is_refused {
                            self.object = State::Invisible;
                        } else {
                            continue;
                        }
                    }
                },
            }
            self.settle().await;
        }
    }

    async fn settle(&mut self) {
        let bundle = self.bundle.borrow_and_update().clone();
        let stanza = match &self.object {
            State::Unknown => return,
            // No such object, so no API server calls us through it. A watch event says when it appears.
            State::Absent => return self.readiness.done(self.check),
            State::Invisible => {
                self.say("No right to read this object, so the controller does not update its caBundle.");
                return self.readiness.done(self.check);
            }
            State::Present(stanza) => stanza,
        };
        let Some(bundle) = bundle else { return };
        match stanza.change(&BASE64_STANDARD.encode(bundle.as_bytes())) {
            CaBundleChange::None => {
                self.last_message = None;
                self.readiness.done(self.check);
            }
            CaBundleChange::Foreign(annotation) => {
                self.say(&format!(
                    "Cert-manager writes the caBundle of this object, because of annotation {annotation}: \
                     set --webhook-cert-dir to serve cert-manager's certificate, or remove the annotation."
                ));
                self.readiness.fail(
                    self.check,
                    format!("is written by cert-manager, because of annotation {annotation}"),
                );
            }
            CaBundleChange::Patch(patch) => self.write(patch).await,
        }
    }

    async fn write(&mut self, patch: serde_json::Value) {
        let now = Instant::now();
        if self.last_write.is_none_or(|last| now - last > WRITE_COUNT_WINDOW) {
            self.writes = 0;
        }
        let over = self.writes.saturating_sub(UNTHROTTLED_WRITES);
        let wait =
            if over == 0 { Duration::ZERO } else { MAX_BACKOFF.min(Duration::from_secs(1 << over.min(6))) };
        if let Some(last) = self.last_write
            && now < last + wait
        {
            self.say("Another client keeps changing the caBundle of this object.");
            self.readiness.fail(self.check, "is changed again and again by another client");
            self.retry = Some(last + wait);
            return;
        }
        self.writes += 1;
        self.last_write = Some(now);
        let patch: json_patch::Patch = match serde_json::from_value(patch) {
            Ok(patch) => patch,
            Err(error) => return self.readiness.fail(self.check, error.to_string()),
        };
        let api: Api<ReceivedObject> = self.selection.objects(&self.client);
        let written = api.patch(&self.name, &PatchParams::default(), &Patch::Json::<()>(patch)).await;
        match written {
            Ok(object) => {
                tracing::info!(
                    kind = self.kind,
                    name = self.name,
                    "Wrote the CA of the webhooks into the object."
                );
                self.object = State::of(&object);
                self.readiness.done(self.check);
            }
            // Deleted, or changed since it was read: a watch event brings the current state.
            Err(error) if has_code(&error, 404) || has_code(&error, 422) || has_code(&error, 409) => {
                self.retry = Some(now + Duration::from_secs(1));
            }
            Err(error) => {
                let text = text_of(&error);
                self.say(&format!("Cannot write the CA of the webhooks into this object: {text}"));
                self.readiness.fail(self.check, format!("cannot be written: {text}"));
                self.retry = Some(now + MAX_BACKOFF.min(Duration::from_secs(1 << self.writes.min(6))));
            }
        }
    }

    /// Logs a state for the operator, once until it changes.
    fn say(&mut self, what: &str) {
        if self.last_message.as_deref() != Some(what) {
            tracing::warn!(kind = self.kind, name = self.name, "{what}");
            self.last_message = Some(what.to_owned());
        }
    }
}
