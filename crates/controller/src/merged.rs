//! Validates merged specs. Each is validated once as long as it stays the same.

use std::collections::HashMap;

use longboat_admission::MergedSpecs;
use longboat_api::v1alpha2::LLMInferenceServiceSpec;
use longboat_compose::outcome::Rejection;
use parking_lot::Mutex;

use longboat_plan::Key;

use crate::hash;

/// The result of validating each service's merged spec. No request is sent: the schema and its rules are part of the program.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    specs: MergedSpecs,
    /// A hash of the spec, and the result.
    known: Mutex<HashMap<Key, (u64, Option<Rejection>)>>,
}

// === impl Judge ===

impl Judge {
    /// Why an API server would refuse a service with this spec; none if it would not.
    pub(crate) fn rejection(&self, service: &Key, spec: &LLMInferenceServiceSpec) -> Option<Rejection> {
        // A spec that cannot be serialized is refused for that reason.
        let Some(hash) = hash::of(spec) else { return self.specs.rejection(spec) };
        if let Some((known, rejection)) = self.known.lock().get(service)
            && *known == hash
        {
            return rejection.clone();
        }
        let rejection = self.specs.rejection(spec);
        self.known.lock().insert(service.clone(), (hash, rejection.clone()));
        rejection
    }

    /// Forgets a service.
    pub(crate) fn forget(&self, service: &Key) {
        self.known.lock().remove(service);
    }
}
