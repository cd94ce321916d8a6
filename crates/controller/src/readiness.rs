//! Whether the controller is ready, and what is missing.

use std::{collections::BTreeMap, fmt, sync::Arc};

use parking_lot::RwLock;

/// A condition that must hold before this process may receive requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Check {
    /// The caches are filled.
    Caches,
    /// The webhooks are served with a certificate.
    Webhooks,
    /// A webhook configuration or CRD contains our CA, or need not contain it.
    Trust(CaConsumer),
}

/// An object that tells API servers which CA to trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CaConsumer {
    /// Defaulting of services.
    MutatingService,
    /// Validation of services.
    ValidatingService,
    /// Validation of configs.
    ValidatingConfig,
    /// Conversion of services.
    ServiceCrd,
    /// Conversion of configs.
    ConfigCrd,
}

/// The state of the checks. Clones share one state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readiness {
    checks: Arc<RwLock<BTreeMap<Check, Result<(), String>>>>,
}

// === impl Readiness ===

impl Readiness {
    /// Adds a check that has not passed yet.
    pub(crate) fn expect(&self, check: Check) {
        self.fail(check, "not yet");
    }

    /// It holds.
    pub(crate) fn done(&self, check: Check) {
        self.checks.write().insert(check, Ok(()));
    }

    /// Records that a check has failed, and why.
    pub(crate) fn fail(&self, check: Check, why: impl Into<String>) {
        self.checks.write().insert(check, Err(why.into()));
    }

    /// Returns whether all expected checks have passed, and one line about each.
    pub(crate) fn report(&self) -> (bool, String) {
        let checks = self.checks.read();
        let lines = checks.iter().map(|(check, state)| match state {
            Ok(()) => format!("[+]{check} ok\n"),
            Err(why) => format!("[-]{check} {why}\n"),
        });
        (checks.values().all(Result::is_ok), lines.collect())
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caches => f.write_str("caches"),
            Self::Webhooks => f.write_str("webhooks"),
            Self::Trust(object) => write!(f, "caBundle of {object}"),
        }
    }
}
