//! Apply: writes the planned children that differ from the live ones.

use std::collections::BTreeSet;

use k8s_openapi::{
    Metadata,
    api::core::v1::{Secret, Service},
};
use kube::{
    Api,
    api::{DeleteParams, PostParams, Preconditions},
};
use longboat_api::{
    labels::{self, COMPONENT},
    reasons::event,
};
use longboat_key::Key;
use longboat_plan::{
    Applied, CertificateRequest, Child, Children, ObjectRef, Planned, Problem, Snapshot, Wave, kinds,
};
use longboat_store::DeletionMark;
use longboat_tls::{LeafRequest, self_signed, self_signed_with_key};
use longboat_watch::{has_code, text_of};
use serde::Serialize;
use tokio::sync::watch;

use crate::{
    announce::announce, apply_cache, context::Context, error::ReconcileError, events::Subject,
    watch::kinds::WatchedKind,
};

/// How often a write is tried in a row when others write the same object. After that, the next reconcile makes a new plan.
const MAX_ATTEMPTS: usize = 4;

/// The result of applying a plan.
pub(crate) struct Outcome {
    /// The children as the API server holds them.
    pub(crate) children: Children<Applied>,
    /// The first write that failed. The waves after it were not written.
    pub(crate) failure: Option<Failure>,
}

/// A write that failed.
pub(crate) struct Failure {
    /// What it means for the service.
    pub(crate) problem: Problem,
    /// Whether the failure may disappear as soon as the caches have caught up. Then it is not reported.
    pub(crate) transient: bool,
}

impl Failure {
    /// Why the reconcile is tried again. `reported` words a failure that lasts.
    pub(crate) fn error(&self, reported: impl FnOnce(String) -> String) -> ReconcileError {
        let message = self.problem.message.clone();
        if self.transient {
            ReconcileError::Conflict { what: message }
        } else {
            ReconcileError::Unfinished(reported(message))
        }
    }
}

/// Writes the children that differ from the objects in `seen`, on which the plan is based, and issues the requested
/// certificates.
///
/// With `refused`, which the API server said about one of the children, writes nothing.
///
/// Children that do not depend on each other are written concurrently. After a failure, no later wave begins. Services are
/// written before the certificate, which contains their addresses, and the certificate before the pods that mount it. Only
/// workloads whose pods run under an account with a role binding wait for the bindings, because an API server may be slow to
/// authorize them. Routes, which send traffic, come last.
pub(crate) async fn all(
    context: &Context,
    subject: &Subject,
    seen: &Snapshot,
    mut planned: Children<Planned>,
    certificates: Vec<CertificateRequest>,
    refused: Option<Problem>,
) -> Outcome {
    let bound = bound_accounts(&planned);
    let failure = refused.map(|problem| Failure { problem, transient: false });
    let mut writer = Writer { context, subject, seen, failure };
    let mut written = Children::default();

    let foundation = Box::pin(writer.write_wave(planned.take(Wave::Foundation), None)).await;
    writer.record(foundation, &mut written);
    if writer.failure.is_none() {
        writer.failure = issue(subject, certificates, &written.services, &mut planned.secrets).err();
    }
    let (report_bindings, bindings) = watch::channel(None);
    let (rights, secrets) = (planned.take(Wave::Binding), planned.take(Wave::Certificate));
    let workloads = planned.take(Wave::Workload);
    let binding = async {
        let written = Box::pin(writer.write_wave(rights, None)).await;
        report_bindings.send_replace(Some(written.failure.is_none()));
        written
    };
    let running = async {
        let secrets = Box::pin(writer.write_wave(secrets, None)).await;
        let gate = Gate { is_closed: secrets.failure.is_some(), bound: &bound, bindings };
        let workloads = Box::pin(writer.write_wave(workloads, Some(&gate))).await;
        (secrets, workloads)
    };
    let (bindings, (secrets, workloads)) = tokio::join!(binding, running);
    // If several of these fail, the first in this order is reported.
    for part in [secrets, bindings, workloads] {
        writer.record(part, &mut written);
    }
    for wave in [Wave::Scaling, Wave::Pool, Wave::Route] {
        let part = Box::pin(writer.write_wave(planned.take(wave), None)).await;
        writer.record(part, &mut written);
    }
    Outcome { children: written, failure: writer.failure }
}

/// Replaces children by newer versions from the caches: others may have changed them since they were written. For instance,
/// their controllers write their status.
pub(crate) fn refresh(context: &Context, children: &mut Children<Applied>) {
    macro_rules! each {
        ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {
            $(for child in &mut children.$field {
                if let Some(newer) = context.caches.$field.newer(child.metadata()) {
                    *child = newer.as_ref().clone();
                }
            })*
        };
    }
    kinds!(children each);
}

/// The accounts that are subjects of a planned binding.
fn bound_accounts(planned: &Children<Planned>) -> BTreeSet<String> {
    let roles = planned.role_bindings.iter().map(|binding| &binding.subjects);
    let cluster_roles = planned.cluster_role_bindings.iter().map(|binding| &binding.subjects);
    let subjects = roles.chain(cluster_roles).flatten().flatten();
    subjects.map(|subject| subject.name.clone()).collect()
}

/// Issues certificates and puts them into the planned Secrets. The certificates include the addresses of Services that were
/// just created, so that a new service needs only one certificate.
fn issue(
    subject: &Subject,
    certificates: Vec<CertificateRequest>,
    services: &[Service],
    secrets: &mut [Secret],
) -> Result<(), Failure> {
    for mut request in certificates {
        let Some(secret) = secrets.iter_mut().find(|secret| request.is_for(secret)) else { continue };
        request.add_addresses(services);
        let leaf = LeafRequest {
            common_name: request.organization.to_owned(),
            organization: request.organization.to_owned(),
            dns_names: request.dns_names.clone(),
            ips: request.addresses.clone(),
            days: request.valid_days,
            client_auth: false,
        };
        let live_key = request.key.as_ref().and_then(|key| std::str::from_utf8(&key.0).ok());
        // A key of another program may have an algorithm that ours cannot sign with.
        let kept = live_key.and_then(|key| self_signed_with_key(&leaf, key).ok());
        let pair = kept.map_or_else(|| self_signed(&leaf), Ok).map_err(|error| {
            let message = format!("failed to create self-signed TLS certificate: {error}");
            Failure { problem: Problem::certificates(message), transient: false }
        })?;
        tracing::info!(service = %subject.key, reason = request.reason, "Issued a certificate.");
        request.fill(secret, &pair.certificate_pem, &pair.key_pem);
    }
    Ok(())
}

/// The preconditions of writing workloads.
struct Gate<'a> {
    /// Whether an object that all pods need is missing, so that no workload is written.
    is_closed: bool,
    /// Accounts with a planned binding.
    bound: &'a BTreeSet<String>,
    /// Whether the bindings were written; `None` until they were tried.
    bindings: watch::Receiver<Option<bool>>,
}

impl Gate<'_> {
    /// Whether pods that run under these accounts have what they need. Waits until that is known.
    async fn lets_through(&self, accounts: Vec<&str>) -> bool {
        if self.is_closed {
            return false;
        }
        if !accounts.into_iter().any(|account| self.bound.contains(account)) {
            return true;
        }
        let mut bindings = self.bindings.clone();
        bindings.wait_for(Option::is_some).await.is_ok_and(|written| *written == Some(true))
    }
}

struct Writer<'a> {
    context: &'a Context,
    subject: &'a Subject,
    seen: &'a Snapshot,
    /// The failure of an earlier wave.
    failure: Option<Failure>,
}

/// Children as the API server holds them, and the first failure to write one.
#[derive(Default)]
struct WriteOutcome<C> {
    children: C,
    failure: Option<Failure>,
}

/// Why one child was not written.
struct ApplyRefusal {
    message: String,
    transient: bool,
}

impl ApplyRefusal {
    /// The caches will have caught up soon.
    fn transient(message: String) -> Self {
        Self { message, transient: true }
    }
}

impl Writer<'_> {
    /// Writes the children of one wave, each kind beside the others. Those that run pods wait for the gate.
    async fn write_wave(
        &self,
        planned: Children<Planned>,
        gate: Option<&Gate<'_>>,
    ) -> WriteOutcome<Children<Applied>> {
        macro_rules! each {
            ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {{
                $(let $field = self.write_kind(planned.$field, gate);)*
                let ($($field,)*) = tokio::join!($($field,)*);
                let mut failure = None;
                $(failure = failure.or($field.failure);)*
                let children = Children { $($field: $field.children,)* ..Children::default() };
                WriteOutcome { children, failure }
            }};
        }
        kinds!(children each)
    }

    /// Writes the children of one kind in order, and stops at the first failure: if the model server's Deployment cannot be
    /// written, the picker's is not written either.
    async fn write_kind<K: Child + WatchedKind + Serialize>(
        &self,
        planned: Vec<K>,
        gate: Option<&Gate<'_>>,
    ) -> WriteOutcome<Vec<K>> {
        let mut written = WriteOutcome { children: Vec::with_capacity(planned.len()), failure: None };
        for child in planned {
            let reference = child.reference();
            let may_be_written = match gate {
                _ if self.failure.is_some() || written.failure.is_some() => false,
                Some(gate) => gate.lets_through(child.accounts()).await,
                None => true,
            };
            if !may_be_written {
                // Not written; the live object still counts for the status.
                let live = K::cache(&self.context.caches).get(&reference.key);
                written.children.extend(live.map(|live| live.as_ref().clone()));
                continue;
            }
            let component = labels::value(child.metadata(), COMPONENT).map(ToOwned::to_owned);
            match Box::pin(self.write_child(&reference, child)).await {
                Ok(child) => written.children.push(child),
                Err(ApplyRefusal { message, transient }) => {
                    let problem = Problem::of_child(&reference, component.as_deref(), message);
                    written.failure = Some(Failure { problem, transient });
                }
            }
        }
        written
    }

    fn record(&mut self, part: WriteOutcome<Children<Applied>>, written: &mut Children<Applied>) {
        self.failure = self.failure.take().or(part.failure);
        written.append(part.children);
    }

    /// Writes one child as planned. Returns it as the API server stores it.
    async fn write_child<K: Child + WatchedKind + Serialize>(
        &self,
        reference: &ObjectRef,
        mut desired: K,
    ) -> Result<K, ApplyRefusal> {
        let Key { namespace, name } = &reference.key;
        // The cache lacks these objects, so nothing could follow what becomes of them.
        let listed = self.seen.check_listed(&[namespace.as_deref()], &[<K as WatchedKind>::KIND]);
        listed.map_err(|message| ApplyRefusal { message, transient: false })?;
        let within = (!namespace.is_empty()).then_some(namespace.as_deref());
        let api = K::api(&self.context.client, within);
        let cache = K::cache(&self.context.caches);
        // Before any request: a deletion that the watch reports from now on may be newer than the response.
        let sent = cache.sending();
        // The object on which the plan is based, not the newest one: the plan could revert a change that came later.
        let Some(live) = K::observed(self.seen).get(namespace.as_deref(), name.as_deref()) else {
            if let Some(present) = cache.get(&reference.key) {
                return Err(self.outdated(reference, present.as_ref(), sent, "already exists"));
            }
            return match api.create(&PostParams::default(), &desired).await {
                Ok(created) => Ok(self.created(reference, &desired, created, sent)),
                // The cache does not have the object yet, or holds only objects with our label. The plan did not know the
                // object either.
                Err(error) if has_code(&error, 409) => {
                    let present = self.read(&api, reference, &error).await?;
                    Err(self.outdated(reference, &present, sent, "already exists"))
                }
                Err(error) => Err(refused("create", reference, &error)),
            };
        };
        let mut live = live.clone();
        let mut asked = None;
        for _ in 0..MAX_ATTEMPTS {
            if live.metadata().deletion_timestamp.is_some() {
                let message = format!(
                    "{reference} is being deleted; the controller creates it again after the deletion"
                );
                return Err(ApplyRefusal::transient(message));
            }
            if !desired.differs(&live)
                || self.context.apply_cache.holds(&self.subject.key, reference, &desired, &live)
            {
                return Ok(live);
            }
            if desired.is_fixed(&live) {
                match self.make_way(&api, reference, &live).await? {
                    None => return self.create(&api, reference, &desired, sent).await,
                    Some(present) => {
                        live = present;
                        continue;
                    }
                }
            }
            // Of the plan, not of a later attempt: that one has values of a live object, so no later plan would equal it.
            let asked = *asked.get_or_insert_with(|| apply_cache::fingerprint(&desired));
            desired.carry_over(&live);
            match api.replace(&reference.key.name, &PostParams::default(), &desired).await {
                Ok(updated) => return Ok(self.updated(reference, asked, &desired, &live, updated, sent)),
                Err(error) if has_code(&error, 409) => {
                    let present = self.read(&api, reference, &error).await?;
                    // If only the status differs, the plan still holds, and only the resourceVersion was old.
                    if apply_cache::fingerprint(&present) != apply_cache::fingerprint(&live) {
                        return Err(self.outdated(reference, &present, sent, "has changed in the meantime"));
                    }
                    live = present;
                }
                Err(error) if has_code(&error, 404) => {
                    // Not created here: the plan was made for an object that existed, and a new one may get other values.
                    cache.remove(live.metadata());
                    let message =
                        format!("{reference} was deleted in the meantime; the controller creates it again");
                    return Err(ApplyRefusal::transient(message));
                }
                Err(error) => return Err(refused("update", reference, &error)),
            }
        }
        let message = format!("failed to update {reference}: other clients keep changing it");
        Err(ApplyRefusal::transient(message))
    }

    /// Handles a plan that is based on an outdated object, or that did not know the object. For instance, an autoscaler has
    /// changed the replicas, and only a new plan keeps them.
    fn outdated<K: Child + WatchedKind>(
        &self,
        reference: &ObjectRef,
        present: &K,
        sent: DeletionMark,
        why: &str,
    ) -> ApplyRefusal {
        self.accept(present, sent);
        ApplyRefusal::transient(format!("{reference} {why}; the controller reconciles the service again"))
    }

    async fn create<K: Child + WatchedKind + Serialize>(
        &self,
        api: &Api<K>,
        reference: &ObjectRef,
        desired: &K,
        sent: DeletionMark,
    ) -> Result<K, ApplyRefusal> {
        match api.create(&PostParams::default(), desired).await {
            Ok(created) => Ok(self.created(reference, desired, created, sent)),
            Err(error) => {
                // The deleted object still exists for a moment. The watch reports when it is gone.
                Err(ApplyRefusal { transient: has_code(&error, 409), ..refused("create", reference, &error) })
            }
        }
    }

    /// Deletes a live object that differs in an immutable field. If its successor adopts its pods, they are orphaned and go
    /// on serving. Returns the live object if it has changed meanwhile.
    async fn make_way<K: Child + WatchedKind>(
        &self,
        api: &Api<K>,
        reference: &ObjectRef,
        live: &K,
    ) -> Result<Option<K>, ApplyRefusal> {
        let metadata = live.metadata();
        let preconditions =
            Preconditions { uid: metadata.uid.clone(), resource_version: metadata.resource_version.clone() };
        let propagation = if K::INHERITS { DeleteParams::orphan() } else { DeleteParams::background() };
        match api.delete(&reference.key.name, &propagation.preconditions(preconditions)).await {
            Ok(_) => {}
            Err(error) if has_code(&error, 404) => return Ok(None),
            Err(error) if has_code(&error, 409) => return self.read(api, reference, &error).await.map(Some),
            Err(error) => return Err(refused("delete", reference, &error)),
        }
        K::cache(&self.context.caches).remove(live.metadata());
        tracing::info!(
            service = %self.subject.key,
            child = %reference,
            "Deleted a child whose immutable fields changed, to create it again."
        );
        self.context.events.normal(self.subject, event::DELETED, format!("{} {reference}", event::DELETED));
        Ok(None)
    }

    /// Reads the live object, which must be controlled by the service.
    async fn read<K: Child + WatchedKind>(
        &self,
        api: &Api<K>,
        reference: &ObjectRef,
        cause: &kube::Error,
    ) -> Result<K, ApplyRefusal> {
        let found =
            api.get_opt(&reference.key.name).await.map_err(|error| refused("get", reference, &error))?;
        let found = found.ok_or_else(|| ApplyRefusal::transient(text_of(cause)))?;
        let mut owners = found.metadata().owner_references.iter().flatten();
        let ours = owners.any(|owner| owner.controller == Some(true) && *owner.uid == *self.subject.uid);
        // Kubernetes allows no owner reference from a cluster-scoped object to a namespaced one, so those have none.
        if !reference.key.namespace.is_empty() && !ours {
            let message = format!(
                "failed to update {reference}: it is not controlled by v1alpha2.LLMInferenceService {}",
                self.subject.key
            );
            return Err(ApplyRefusal { message, transient: false });
        }
        Ok(found)
    }

    fn created<K: Child + WatchedKind + Serialize>(
        &self,
        reference: &ObjectRef,
        desired: &K,
        created: K,
        sent: DeletionMark,
    ) -> K {
        if desired.differs(&created) {
            let asked = apply_cache::fingerprint(desired);
            self.context.apply_cache.note(&self.subject.key, reference, asked, &created);
        }
        self.written(reference, created, sent, event::CREATED)
    }

    /// Stores the updated object. `asked` is the fingerprint of the planned object, before values of the live object were
    /// copied to it.
    fn updated<K: Child + WatchedKind + Serialize>(
        &self,
        reference: &ObjectRef,
        asked: u64,
        desired: &K,
        live: &K,
        updated: K,
        sent: DeletionMark,
    ) -> K {
        if desired.differs(&updated) {
            self.context.apply_cache.note(&self.subject.key, reference, asked, &updated);
            if updated.metadata().resource_version == live.metadata().resource_version {
                // Another webhook has reverted the change: nothing was written, and there is no event.
                return updated;
            }
        }
        self.written(reference, updated, sent, event::UPDATED)
    }

    /// Stores an object and announces the change. The watch will not report this version as a change.
    fn accept<K: WatchedKind>(&self, object: &K, sent: DeletionMark) {
        if let Some(change) = K::cache(&self.context.caches).set_response(object, sent) {
            announce(self.context, &change);
        }
    }

    /// Stores what the server returned, so that the next reconcile has it before the watch reports it.
    fn written<K: Child + WatchedKind>(
        &self,
        reference: &ObjectRef,
        object: K,
        sent: DeletionMark,
        reason: &'static str,
    ) -> K {
        self.accept(&object, sent);
        // The next plan may depend on this object: for instance, a certificate contains the address of a Service.
        self.context.services.add(self.subject.key.clone());
        tracing::info!(service = %self.subject.key, child = %reference, "{reason} a child.");
        self.context.events.normal(self.subject, reason, format!("{reason} {reference}"));
        object
    }
}

fn refused(verb: &str, reference: &ObjectRef, error: &kube::Error) -> ApplyRefusal {
    ApplyRefusal { message: format!("failed to {verb} {reference}: {}", text_of(error)), transient: false }
}
