//! Garbage collection: deletes objects whose owners no longer exist.
//!
//! Each collection reads all tables and builds two indexes: which uids exist, and which objects name which uid as an owner.
//! There is no queue that could lose an entry: the next collection repeats whatever failed.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::backoff::RefusedDeletions;
use crate::{
    deletion::{FOREGROUND, ORPHAN, remove_finalizer},
    edit::edit_stored,
    kinds::Resource,
    state::State,
    store::{Key, StoredObject},
    strategy::put,
    verbs::internal,
};

/// The interval between checks of the store's revision. A collection only runs if the revision has changed.
const COLLECTION_INTERVAL: Duration = Duration::from_millis(100);

/// Runs until `shutdown`.
pub(super) async fn run(state: &Arc<State>, shutdown: &CancellationToken) {
    let mut seen = 0;
    let mut pending = Pending::default();
    while shutdown.run_until_cancelled(tokio::time::sleep(COLLECTION_INTERVAL)).await.is_some() {
        let revision = state.store.revision();
        if revision == seen && pending.suspects.is_empty() && !pending.refused.is_any_due(Instant::now()) {
            continue;
        }
        seen = revision;
        pass(state, &mut pending).await;
    }
}

/// What a collection leaves for the next one, by uid.
#[derive(Default)]
struct Pending {
    /// Objects whose owners were missing in the last collection. An owner may appear right after its dependent, so it must be
    /// missing in two collections in a row.
    suspects: HashSet<String>,
    /// Objects whose owners are missing in this collection.
    next_suspects: HashSet<String>,
    refused: RefusedDeletions,
}

struct CollectedObject {
    resource: Arc<Resource>,
    stored: Arc<StoredObject>,
}

/// Runs one collection. Objects whose owners are missing become suspects; the next collection deletes them if this is still so.
async fn pass(state: &Arc<State>, pending: &mut Pending) {
    let mut owned: Vec<CollectedObject> = Vec::new();
    let mut finishing: Vec<CollectedObject> = Vec::new();
    // By uid, which objects exist, and whether they wait for their dependents to be deleted first.
    let mut alive: HashMap<String, bool> = HashMap::new();
    for resource in state.registry.tables() {
        for (_, stored) in state.store.list(&resource.table, None).objects {
            let head = stored.value.head();
            let metadata = &head["metadata"];
            let deleting = metadata["deletionTimestamp"].is_string();
            let holds = |name: &str| has_finalizer(head, name);
            let foreground = deleting && holds(FOREGROUND);
            if let Some(uid) = metadata["uid"].as_str() {
                alive.insert(uid.to_owned(), foreground);
            }
            let seen =
                |stored: Arc<StoredObject>| CollectedObject { resource: Arc::clone(&resource), stored };
            if metadata["ownerReferences"].as_array().is_some_and(|o| !o.is_empty()) {
                owned.push(seen(Arc::clone(&stored)));
            }
            if foreground || (deleting && holds(ORPHAN)) {
                finishing.push(seen(stored));
            }
        }
    }
    pending.refused.retain(|uid| alive.contains_key(uid));
    // The tables were read one after the other, so an owner may have been created after its table was read. Therefore an
    // object without owners is only a suspect at first.
    let mut blocked: HashSet<String> = HashSet::new();
    let orphaning: HashSet<&str> = finishing
        .iter()
        .filter(|s| has_finalizer(s.stored.value.head(), ORPHAN))
        .filter_map(|s| s.stored.metadata()["uid"].as_str())
        .collect();
    for seen in &owned {
        judge(state, seen, &alive, &orphaning, pending, &mut blocked).await;
    }
    for seen in &finishing {
        let uid = seen.stored.metadata()["uid"].as_str().unwrap_or_default();
        let finalizer = if has_finalizer(seen.stored.value.head(), ORPHAN) { ORPHAN } else { FOREGROUND };
        if finalizer == FOREGROUND && blocked.contains(uid) {
            continue;
        }
        drop_finalizer(state, seen, finalizer);
    }
    pending.suspects = std::mem::take(&mut pending.next_suspects);
}

/// Decides about one object that has owners: orphans it, deletes it, or leaves it.
async fn judge(
    state: &Arc<State>,
    seen: &CollectedObject,
    alive: &HashMap<String, bool>,
    orphaning: &HashSet<&str>,
    pending: &mut Pending,
    blocked: &mut HashSet<String>,
) {
    let metadata = seen.stored.metadata();
    let uid = metadata["uid"].as_str().unwrap_or_default();
    let references = || metadata["ownerReferences"].as_array().into_iter().flatten();
    let owners: Vec<(&str, bool)> =
        references().filter_map(|o| Some((o["uid"].as_str()?, o["blockOwnerDeletion"] == true))).collect();
    // an owner whose kind is not served may exist elsewhere, so its dependents stay
    let unknown = references().any(|o| {
        let text = |key: &str| o[key].as_str().unwrap_or_default();
        !alive.contains_key(text("uid"))
            && state.registry.find_kind(text("apiVersion"), text("kind")).is_none()
    });
    if unknown {
        return;
    }
    if owners.iter().any(|(owner, _)| orphaning.contains(owner)) {
        let edited = edit_stored(state, &seen.resource.table, &seen.stored, |value| {
            let mut left = value["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
            left.retain(|o| !o["uid"].as_str().is_some_and(|u| orphaning.contains(u)));
            put(&mut value["metadata"], "ownerReferences", (!left.is_empty()).then(|| left.into()));
        });
        if let Err(error) = edited {
            tracing::debug!(%error, "Cannot orphan an object.");
        }
        return;
    }
    let solid = owners.iter().any(|(owner, _)| alive.get(*owner) == Some(&false));
    if solid {
        return;
    }
    let waiting: Vec<_> = owners.iter().filter(|(owner, _)| alive.get(*owner) == Some(&true)).collect();
    blocked.extend(waiting.iter().filter(|(_, blocks)| *blocks).map(|(owner, _)| (*owner).to_owned()));
    // After the loop above, because an object blocks its owners until it is gone.
    if metadata["deletionTimestamp"].is_string() || !pending.refused.may_retry(uid, Instant::now()) {
        return;
    }
    if waiting.is_empty() && !pending.suspects.contains(uid) {
        pending.next_suspects.insert(uid.to_owned());
        return;
    }
    // every owner is gone, or waits for the deletion of this object
    if let Err(error) = internal::delete(state, &seen.resource, &seen.stored).await {
        tracing::debug!(%error, "Cannot garbage-collect an object.");
        pending.refused.add(uid, Instant::now());
    }
}

fn has_finalizer(value: &Value, name: &str) -> bool {
    value["metadata"]["finalizers"].as_array().is_some_and(|f| f.iter().any(|f| f == name))
}

fn drop_finalizer(state: &Arc<State>, seen: &CollectedObject, finalizer: &str) {
    let before = seen.stored.value.clone();
    let table = &seen.resource.table;
    let finish = |value: &mut Value| remove_finalizer(&mut value["metadata"], finalizer);
    let edited = edit_stored(state, table, &seen.stored, finish);
    if edited.is_ok() && state.store.get(table, &Key::of(&before)).is_none() {
        crate::effects::after_write(state, &seen.resource, Some(&before), None);
    }
}
