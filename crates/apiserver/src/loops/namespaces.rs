//! The loop that empties namespaces that are being deleted.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::backoff::RefusedDeletions;
use crate::{
    deletion::remove_finalizer,
    edit::edit_stored,
    state::State,
    store::StoredObject,
    verbs::{create::NAMESPACES, internal},
};

/// How often a namespace is checked again while objects in it have finalizers or are terminating.
const RECHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Runs until `shutdown`.
pub(super) async fn run(state: &Arc<State>, shutdown: &CancellationToken) {
    let mut changes = state.store.subscribe(NAMESPACES);
    let mut refused = RefusedDeletions::default();
    loop {
        changes.borrow_and_update();
        let mut waiting = false;
        for (_, stored) in state.store.list(NAMESPACES, None).objects {
            if stored.metadata()["deletionTimestamp"].is_string() {
                waiting |= !empty(state, &stored, &mut refused).await;
            }
        }
        if !waiting {
            refused = RefusedDeletions::default();
        }
        let again = async {
            if waiting {
                tokio::time::sleep(RECHECK_INTERVAL).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            alive = changes.changed() => if alive.is_err() { return },
            () = again => {}
        }
    }
}

/// Deletes the objects of a namespace, then the namespace once it is empty. Returns whether the namespace is gone.
async fn empty(state: &Arc<State>, namespace: &Arc<StoredObject>, refused: &mut RefusedDeletions) -> bool {
    let name = namespace.metadata()["name"].as_str().unwrap_or_default();
    let mut left = false;
    for resource in state.registry.tables() {
        if !resource.namespaced {
            continue;
        }
        for (key, stored) in state.store.list(&resource.table, Some(name)).objects {
            let uid = stored.metadata()["uid"].as_str().unwrap_or_default();
            if stored.metadata()["deletionTimestamp"].is_null()
                && refused.may_retry(uid, Instant::now())
                && let Err(error) = internal::delete(state, &resource, &stored).await
            {
                refused.add(uid, Instant::now());
                tracing::debug!(%error, resource = %resource.qualified(), name = %key.name, "Cannot delete an object.");
            }
            // Its finalizers or its grace period may hold it.
            left |= state.store.get(&resource.table, &key).is_some();
        }
    }
    let finish = |value: &mut Value| remove_finalizer(&mut value["spec"], "kubernetes");
    !left && edit_stored(state, NAMESPACES, namespace, finish).is_ok()
}
