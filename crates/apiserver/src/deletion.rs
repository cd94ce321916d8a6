//! How an object is deleted that others depend on: the finalizers of garbage collection, and when it may go.

use serde_json::Value;

use crate::strategy::put;

/// The finalizer of an object that is deleted after its dependents.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an object whose dependents stay.
pub(crate) const ORPHAN: &str = "orphan";

/// Removes a finalizer from the list in the metadata, or in the spec of a namespace. An empty list is removed, too.
pub(crate) fn remove_finalizer(holder: &mut Value, finalizer: &str) {
    let mut finalizers = holder["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.retain(|known| known != finalizer);
    put(holder, "finalizers", (!finalizers.is_empty()).then(|| finalizers.into()));
}

/// Whether an object that is marked for deletion has no finalizers left.
pub(crate) fn is_finished(value: &Value) -> bool {
    let metadata = &value["metadata"];
    metadata["deletionTimestamp"].is_string()
        && metadata["finalizers"].as_array().is_none_or(Vec::is_empty)
        && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && (value["kind"] != "Namespace" || value["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty))
}
