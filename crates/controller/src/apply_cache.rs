//! Children that the API server stores differently from what was requested.
//!
//! Another mutating webhook may add to an object that is written, or revert a change. Writing it again would change nothing
//! and trigger another reconcile. So the response to a write counts as its outcome until the plan or the stored object
//! changes.

use std::collections::HashMap;

use longboat_key::Key;
use longboat_plan::ObjectRef;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;

use crate::hash;

/// The requested and the stored object of each such child of each service, as hashes.
#[derive(Debug, Default)]
pub(crate) struct ApplyCache {
    outcomes: Mutex<HashMap<Key, HashMap<ObjectRef, Outcome>>>,
}

/// Fingerprints of the requested and the stored object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outcome {
    requested: u64,
    stored: u64,
}

// === impl ApplyCache ===

impl ApplyCache {
    /// Whether the live object is what the server stored when this object was requested before.
    pub(crate) fn holds<K: Serialize>(
        &self,
        service: &Key,
        child: &ObjectRef,
        requested: &K,
        live: &K,
    ) -> bool {
        let known = self.outcomes.lock().get(service).and_then(|children| children.get(child)).copied();
        known.is_some_and(|known| {
            known == Outcome { requested: fingerprint(requested), stored: fingerprint(live) }
        })
    }

    /// Remembers what the server stored for a request.
    pub(crate) fn note<K: Serialize>(&self, service: &Key, child: &ObjectRef, requested: u64, stored: &K) {
        let outcome = Outcome { requested, stored: fingerprint(stored) };
        self.outcomes.lock().entry(service.clone()).or_default().insert(child.clone(), outcome);
    }

    /// Forgets a service and its children.
    pub(crate) fn forget(&self, service: &Key) {
        self.outcomes.lock().remove(service);
    }
}

/// A hash of what is requested of an object, without its status and the metadata that every write changes.
pub(crate) fn fingerprint<K: Serialize>(object: &K) -> u64 {
    // Kubernetes' types can always be serialized.
    let mut object = serde_json::to_value(object).unwrap_or_default();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
        if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|field, _| {
                !matches!(field.as_str(), "resourceVersion" | "managedFields" | "generation")
            });
        }
    }
    hash::of(&object).unwrap_or_default()
}
