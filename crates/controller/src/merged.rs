//! Judges merged specs, each once for as long as it stays the same (contract 01 §10.6).

use std::collections::HashMap;

use longboat_admission::MergedSpecs;
use longboat_api::v1alpha2::LLMInferenceServiceSpec;
use longboat_compose::outcome::Rejection;
use parking_lot::Mutex;

use crate::{key::Key, sum};

/// What there is to say of each service's merged spec. Nobody is asked: the schema and the rules are part of the program.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    specs: MergedSpecs,
    /// A sum of the spec, and what was said of it.
    known: Mutex<HashMap<Key, (u64, Option<Rejection>)>>,
}

// === impl Judge ===

impl Judge {
    /// Why an API server would refuse a service with this spec; none if it would not.
    pub(crate) fn rejection(&self, service: &Key, spec: &LLMInferenceServiceSpec) -> Option<Rejection> {
        // A spec that cannot be printed is refused for that.
        let Some(sum) = sum::of(spec) else { return self.specs.rejection(spec) };
        if let Some((known, rejection)) = self.known.lock().get(service)
            && *known == sum
        {
            return rejection.clone();
        }
        let rejection = self.specs.rejection(spec);
        self.known.lock().insert(service.clone(), (sum, rejection.clone()));
        rejection
    }

    /// Forgets a service.
    pub(crate) fn forget(&self, service: &Key) {
        self.known.lock().remove(service);
    }
}
