//! Judges merged specs, each once for as long as it stays the same (contract 01 §10.6).

use std::{collections::HashMap, hash::Hasher, io};

use ahash::AHasher;
use longboat_admission::MergedSpecs;
use longboat_api::v1alpha2::LLMInferenceServiceSpec;
use longboat_compose::outcome::Rejection;
use parking_lot::Mutex;

use crate::key::Key;

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
        let mut sum = Sum(AHasher::default());
        // A spec that cannot be printed is refused for that, below.
        let printed = serde_json::to_writer(&mut sum, spec).is_ok();
        let sum = sum.0.finish();
        if printed
            && let Some((known, rejection)) = self.known.lock().get(service)
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

/// Sums up what is written to it.
struct Sum(AHasher);

// === impl Sum ===

impl io::Write for Sum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
