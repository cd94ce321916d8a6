//! Who has to hear of a change, whichever way it became known: by a watch, or by the answer to a write of ours.

use std::collections::BTreeSet;

use crate::{
    cache::Change,
    context::Context,
    key::{Key, ObjectKey},
    watch::Watched,
};

/// Takes over the answer to a status of ours. It has all that others have changed by then, which the watch may not have told of;
/// and will not, since it is known now.
pub(crate) fn reported<K: Watched>(context: &Context, answer: &K) {
    let Some(change) = K::cache(&context.caches).set(answer) else { return };
    let is_same = change.old.as_ref().is_some_and(|old| {
        let (mut old, new) = (old.metadata().clone(), answer.metadata());
        old.resource_version.clone_from(&new.resource_version);
        old.managed_fields.clone_from(&new.managed_fields);
        // A spec has its generation.
        old == *new
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
    K::changed(context, &key, old, new);
    for service in object.concerns() {
        context.services.add(service);
    }
    // Who leaves a group concerns the group that it leaves.
    let aliases: BTreeSet<ObjectKey> = old.into_iter().chain(new).flat_map(K::aliases).collect();
    for name in aliases.iter().chain(std::iter::once(&key.clone().of_kind(<K as Watched>::KIND))) {
        for service in context.index.users(name) {
            context.services.add(service);
        }
    }
}
