//! Writes one child, and handles what others did to it meanwhile.

use kube::{
    Api,
    api::{DeleteParams, PostParams, Preconditions},
};
use longboat_api::reasons::event;
use longboat_key::Key;
use longboat_plan::{Child, ObjectRef};
use longboat_store::DeletionMark;
use longboat_watch::{has_code, text_of};
use serde::Serialize;

use super::Writer;
use crate::{announce::announce, apply_cache, watch::kinds::WatchedKind};

/// How often a write is tried in a row when others write the same object. After that, the next reconcile makes a new plan.
const MAX_ATTEMPTS: usize = 4;

/// Why one child was not written.
pub(super) struct ApplyRefusal {
    pub(super) message: String,
    pub(super) transient: bool,
}

impl ApplyRefusal {
    /// The caches will have caught up soon.
    fn transient(message: String) -> Self {
        Self { message, transient: true }
    }
}

impl Writer<'_> {
    /// Writes one child as planned. Returns it as the API server stores it.
    pub(super) async fn write_child<K: Child + WatchedKind + Serialize>(
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
        let mut fingerprint = None;
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
            if desired.must_be_recreated(&live) {
                match self.delete_immutable(&api, reference, &live).await? {
                    None => return self.create(&api, reference, &desired, sent).await,
                    Some(present) => {
                        live = present;
                        continue;
                    }
                }
            }
            // Of the plan, not of a later attempt: that one has values of a live object, so no later plan would equal it.
            let fingerprint = *fingerprint.get_or_insert_with(|| apply_cache::fingerprint(&desired));
            desired.carry_over(&live);
            match api.replace(&reference.key.name, &PostParams::default(), &desired).await {
                Ok(updated) => {
                    return Ok(self.updated(reference, fingerprint, &desired, &live, updated, sent));
                }
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
    async fn delete_immutable<K: Child + WatchedKind>(
        &self,
        api: &Api<K>,
        reference: &ObjectRef,
        live: &K,
    ) -> Result<Option<K>, ApplyRefusal> {
        let metadata = live.metadata();
        let preconditions =
            Preconditions { uid: metadata.uid.clone(), resource_version: metadata.resource_version.clone() };
        let propagation =
            if K::ORPHANS_DEPENDENTS { DeleteParams::orphan() } else { DeleteParams::background() };
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
            let fingerprint = apply_cache::fingerprint(desired);
            self.context.apply_cache.note(&self.subject.key, reference, fingerprint, &created);
        }
        self.written(reference, created, sent, event::CREATED)
    }

    /// Stores the updated object. `fingerprint` is that of the planned object, before values of the live object were copied to
    /// it.
    fn updated<K: Child + WatchedKind + Serialize>(
        &self,
        reference: &ObjectRef,
        fingerprint: u64,
        desired: &K,
        live: &K,
        updated: K,
        sent: DeletionMark,
    ) -> K {
        if desired.differs(&updated) {
            self.context.apply_cache.note(&self.subject.key, reference, fingerprint, &updated);
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
