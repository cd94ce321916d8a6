//! Validates merged specs. A spec is validated again only when it changes.

use std::collections::HashMap;

use longboat_admission::MergedSpecs;
use longboat_api::v1alpha2::LLMInferenceServiceSpec;
use longboat_compose::outcome::Rejection;
use parking_lot::Mutex;

use longboat_key::Key;

use crate::hash;

/// The results of validating the merged spec of each service. No request is sent, because the schema and its rules are
/// compiled into the program.
#[derive(Debug, Default)]
pub(crate) struct MergedSpecValidator {
    specs: MergedSpecs,
    /// A hash of the spec, and the result.
    known: Mutex<HashMap<Key, (u64, Option<Rejection>)>>,
}

// === impl MergedSpecValidator ===

impl MergedSpecValidator {
    /// Returns why an API server would refuse a service with this spec, or `None` if it would accept the spec.
    pub(crate) fn rejection(&self, service: &Key, spec: &LLMInferenceServiceSpec) -> Option<Rejection> {
        // A spec that cannot be serialized is refused for that reason.
        let Some(hash) = hash::of(spec) else { return self.specs.rejection(spec) };
        if let Some((known, rejection)) = self.known.lock().get(service)
            && *known == hash
        {
            return rejection.clone();
        }
        // Without the lock, so that other services are validated meanwhile.
        let rejection = self.specs.rejection(spec);
        self.known.lock().insert(service.clone(), (hash, rejection.clone()));
        rejection
    }

    /// Forgets a service.
    pub(crate) fn forget(&self, service: &Key) {
        self.known.lock().remove(service);
    }
}
