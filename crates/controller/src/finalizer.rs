//! Adds and removes finalizers by a patch that contains nothing else, so that the rest of the object stays as users wrote it.

use kube::api::{Patch, PatchParams};
use serde_json::json;

use longboat_key::Key;
use longboat_watch::has_code;

use crate::{context::Context, error::ReconcileError, watch::kinds::WatchedKind};

/// Whether an object has a finalizer.
pub(crate) fn has<K: WatchedKind>(object: &K, finalizer: &str) -> bool {
    object.metadata().finalizers.iter().flatten().any(|f| f == finalizer)
}

/// Adds a finalizer.
pub(crate) async fn add<K: WatchedKind>(
    context: &Context,
    object: &K,
    finalizer: &str,
) -> Result<(), ReconcileError> {
    let mut finalizers = object.metadata().finalizers.clone().unwrap_or_default();
    finalizers.push(finalizer.to_owned());
    write(context, object, &finalizers).await
}

/// Removes a finalizer, so that the API server can delete the object.
pub(crate) async fn remove<K: WatchedKind>(
    context: &Context,
    object: &K,
    finalizer: &str,
) -> Result<(), ReconcileError> {
    let mut finalizers = object.metadata().finalizers.clone().unwrap_or_default();
    finalizers.retain(|f| f != finalizer);
    write(context, object, &finalizers).await
}

async fn write<K: WatchedKind>(
    context: &Context,
    object: &K,
    finalizers: &[String],
) -> Result<(), ReconcileError> {
    let key = Key::of(object);
    let metadata = object.metadata();
    // With the resourceVersion, because a merge patch replaces the whole list.
    let patch = json!({"metadata": {
        "resourceVersion": metadata.resource_version,
        "uid": metadata.uid,
        "finalizers": finalizers,
    }});
    let api = K::api(&context.client, Some(key.namespace.as_deref()));
    let cache = K::cache(&context.caches);
    let sent = cache.sending();
    match api.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(updated) => {
            // An object that waited only for this finalizer is deleted now, and the watch reports that.
            if updated.metadata().deletion_timestamp.is_none() {
                cache.set_response(&updated, sent);
            }
            Ok(())
        }
        // It is gone, and the watch says so.
        Err(error) if has_code(&error, 404) => Ok(()),
        Err(error) => Err(ReconcileError::request(format!("update the finalizers of {key}"), error)),
    }
}
