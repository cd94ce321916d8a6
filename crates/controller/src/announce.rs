//! Who has to hear of a change, whichever way it became known: by a watch, or by the answer to a write of ours.

use std::collections::BTreeSet;

use crate::{
    cache::Change,
    context::Context,
    key::{Key, ObjectKey},
    observe,
    watch::Watched,
};

/// Takes over the answer to a status of ours. It has all that others have changed by then, which the watch may not have told of;
/// and will not, since it is known now.
pub(crate) fn reported<K: Watched>(context: &Context, answer: &K) {
    let cache = K::cache(&context.caches);
    let known = cache.metadata(&Key::of(answer));
    let Some(change) = cache.set(answer) else { return };
    let is_same = known.is_some_and(|mut known| {
        let new = answer.metadata();
        known.resource_version.clone_from(&new.resource_version);
        known.managed_fields.clone_from(&new.managed_fields);
        // A spec has its generation.
        known == *new
    });
    if !is_same {
        announce(context, &change);
    }
}

/// Wakes whom a change concerns.
pub(crate) fn announce<K: Watched>(context: &Context, change: &Change<'_, K>) {
    let (old, new) = (change.old.as_deref(), change.new);
    if let (Some(old), Some(new)) = (old, new)
        && !K::matters(old, new)
    {
        return;
    }
    let Some(object) = new.or(old) else { return };
    let key = Key::of(object);
    K::changed(context, &key, change);
    for service in object.concerns() {
        context.services.add(service);
    }
    let mut names: BTreeSet<ObjectKey> = old.into_iter().chain(new).flat_map(K::aliases).collect();
    // Who leaves a group concerns the group that it leaves.
    let peers = change.peers.iter().flatten();
    names.extend(peers.flat_map(|peer| observe::aliases(&key.namespace, peer)));
    names.insert(key.of_kind(<K as Watched>::KIND));
    for name in &names {
        for service in context.index.users(name) {
            context.services.add(service);
        }
    }
}
