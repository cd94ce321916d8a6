//! Enqueues the services that a change concerns, whether a watch event or the response to our own write reported it.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use longboat_key::{Key, Name, Namespace};
use longboat_plan::ObjectKey;
use longboat_store::DeletionMark;

use crate::{
    caches::Change,
    config_users::enqueue_used,
    context::Context,
    observe,
    watch::kinds::{Effect, WatchedKind, related_service},
};

/// Stores the response to our own status write. The response contains everything that others have changed by then. The watch
/// will not report those changes as new, because the cache already has this version, so they are announced here. A change of
/// only the status concerns only the services that depend on a part of it.
pub(crate) fn store_status_response<K: WatchedKind>(context: &Context, answer: &K, sent: DeletionMark) {
    let cache = K::cache(&context.caches);
    let known = cache.metadata(&Key::of(answer));
    let Some(change) = cache.set_response(answer, sent) else { return };
    let is_same = known.is_some_and(|mut known| {
        let new = answer.metadata();
        // Every write changes these two.
        known.resource_version.clone_from(&new.resource_version);
        known.managed_fields.clone_from(&new.managed_fields);
        // A change of the spec changes the generation.
        known == *new
    });
    if !is_same {
        announce(context, &change);
        return;
    }
    let key = Key::of(answer);
    let [before, now] = &change.summaries;
    enqueue_used(context, key.namespace.as_deref(), before.as_deref(), now.as_deref());
    let mut dependents = context.index.record(aliases(&key, &change));
    // Its own reconcile has just computed this status.
    dependents.retain(|service| *service != key);
    context.enqueue_dependents(dependents);
}

fn take_effect(context: &Context, key: &Key, effect: Effect) {
    match effect {
        Effect::NamespaceEnds(ends) => {
            let Name(name) = key.name.as_deref();
            if context.events.ending.set(Namespace(name), ends) {
                // The watches are independent. If a namespace of the same name was created since, services of it may have
                // been seen, and passed over, before its end was.
                let mut services = context.caches.inference_services.keys();
                services.retain(|service| service.namespace.as_deref() == Namespace(name));
                context.enqueue_dependents(services);
            }
        }
        Effect::SetLayer(kind, layer) => context.set_layer(key.clone().of_kind(kind), layer),
        Effect::ReconcileConfig => context.configs.add(key.clone()),
        Effect::LoadPlatform => {
            if key.namespace == context.args.system_namespace && context.load_platform() {
                context.enqueue_all();
            }
        }
        Effect::ForgetSecret => context.secret_contents.forget(key),
    }
}

/// Enqueues the services that a change concerns.
pub(crate) fn announce<K: WatchedKind>(context: &Context, change: &Change<'_, K>) {
    let (old, new) = (change.old.as_deref(), change.new);
    if let (Some(old), Some(new)) = (old, new)
        && !K::matters(old, new)
    {
        return;
    }
    let key = change.key.clone();
    for effect in K::effects(change) {
        take_effect(context, &key, effect);
    }
    // Only services have summaries. A service uses its configs until it is deleted, even while it is finalized. And a status may
    // have been written although its response was lost.
    let [before, now] = &change.summaries;
    enqueue_used(context, key.namespace.as_deref(), before.as_deref(), now.as_deref());
    let Some(object) = new.or(old) else {
        announce_unreadable::<K>(context, &key, &ObjectMeta::default());
        return;
    };
    let is_new = new.is_some_and(K::is_unobserved);
    for service in object.concerns() {
        if is_new {
            context.services.add_changed(service);
        } else {
            context.services.add(service);
        }
    }
    let mut names: BTreeSet<ObjectKey> = old.into_iter().chain(new).flat_map(K::aliases).collect();
    names.extend(aliases(&key, change));
    names.insert(key.of_kind(<K as WatchedKind>::KIND));
    context.enqueue_dependents(context.index.record(names));
}

/// Enqueues the services that depend on an object that cannot be decoded, and the service that its metadata names.
pub(crate) fn announce_unreadable<K: WatchedKind>(context: &Context, key: &Key, metadata: &ObjectMeta) {
    if let Some(service) = related_service(metadata) {
        context.services.add(service);
    }
    context.enqueue_dependents(context.index.record([key.clone().of_kind(<K as WatchedKind>::KIND)]));
}

/// The keys of the indexes that list an object before or after a change. When a service leaves a group, that concerns the
/// members that stay.
fn aliases<K>(key: &Key, change: &Change<'_, K>) -> BTreeSet<ObjectKey> {
    let [before, now] = &change.summaries;
    if before == now {
        return BTreeSet::new();
    }
    let peers = [before, now].into_iter().flatten();
    peers.flat_map(|peer| observe::aliases(key.namespace.as_deref(), peer)).collect()
}
