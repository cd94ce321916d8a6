//! The namespaces that are being deleted. An API server refuses to create anything in them, events included.

use std::{collections::HashSet, sync::Arc};

use k8s_openapi::api::core::v1;
use longboat_key::{Key, Name, Namespace};
use parking_lot::RwLock;

use crate::{
    context::{Change, Context},
    watch::Rules,
};

/// The namespaces that are being deleted. Clones share one list: the writer of events outlives the [`Context`].
#[derive(Clone, Debug, Default)]
pub(crate) struct TerminatingNamespaces(Arc<RwLock<HashSet<Namespace>>>);

// === impl TerminatingNamespaces ===

impl TerminatingNamespaces {
    pub(crate) fn contains(&self, namespace: Namespace<&str>) -> bool {
        self.0.read().contains(namespace.as_str())
    }

    /// Returns whether the namespace was in the list and is not any more.
    fn set(&self, namespace: Namespace<&str>, ends: bool) -> bool {
        let mut all = self.0.write();
        if ends {
            all.insert(namespace.to_shared());
            false
        } else {
            all.remove(namespace.as_str())
        }
    }
}

impl Rules for v1::Namespace {
    fn slim(&mut self) -> bool {
        self.metadata.labels = None;
        self.metadata.annotations = None;
        (self.spec, self.status) = (None, None);
        true
    }

    fn changed(context: &Context, key: &Key, change: &Change<'_, Self>) {
        let ends = change.new.is_some_and(|new| new.metadata.deletion_timestamp.is_some());
        let Name(name) = key.name.as_deref();
        if context.events.ending.set(Namespace(name), ends) {
            // The watches are independent. If a namespace of the same name was created since, services of it may have been
            // seen, and passed over, before its end was.
            let mut services = context.caches.inference_services.keys();
            services.retain(|service| service.namespace.as_deref() == Namespace(name));
            context.enqueue_dependents(services);
        }
    }

    fn concerns(&self) -> Vec<Key> {
        // The services in it are deleted too, and their own watch reports that.
        Vec::new()
    }
}
