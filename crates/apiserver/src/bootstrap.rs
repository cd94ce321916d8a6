//! The objects that every server has from the start: the default namespaces.

use longboat_key::names::NAMESPACE_NAME;
use serde_json::json;

use crate::{clock, state::State, store::Key, verbs::create};

/// Namespaces that always exist and cannot be deleted.
pub(crate) const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Creates the missing namespaces.
pub(crate) fn fill(state: &State) {
    // create the tables before the first write, so that watches may start from any revision
    for resource in state.registry.tables() {
        state.store.create_table(&resource.table);
    }
    for name in NAMESPACES {
        let namespace = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": name,
                "uid": uuid::Uuid::new_v4().to_string(),
                "creationTimestamp": clock::now(),
                "labels": {NAMESPACE_NAME: name},
            },
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        });
        // an error means that the namespace exists
        let _ = state.store.create(create::NAMESPACES, Key::new("", name), namespace, &[]);
    }
}
