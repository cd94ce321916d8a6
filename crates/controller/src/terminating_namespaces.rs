//! The namespaces that are being deleted. An API server refuses to create anything in them, events included.

use std::{collections::HashSet, sync::Arc};

use longboat_key::Namespace;
use parking_lot::RwLock;

/// The namespaces that are being deleted. Clones share one list: the writer of events outlives the controller's context.
#[derive(Clone, Debug, Default)]
pub(crate) struct TerminatingNamespaces(Arc<RwLock<HashSet<Namespace>>>);

// === impl TerminatingNamespaces ===

impl TerminatingNamespaces {
    pub(crate) fn contains(&self, namespace: Namespace<&str>) -> bool {
        self.0.read().contains(namespace.as_str())
    }

    /// Returns whether the namespace was in the list and is not any more.
    pub(crate) fn set(&self, namespace: Namespace<&str>, ends: bool) -> bool {
        let mut all = self.0.write();
        if ends {
            all.insert(namespace.to_shared());
            false
        } else {
            all.remove(namespace.as_str())
        }
    }
}
