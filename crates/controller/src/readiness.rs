//! Whether the controller is ready, and what is missing.

use std::{collections::BTreeMap, fmt, sync::Arc};

use parking_lot::RwLock;

/// Something that has to hold before requests are sent here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Check {
    /// The caches are filled.
    Caches,
    /// The webhooks are served with a certificate.
    Webhooks,
    /// A webhook configuration or CRD names our CA, or need not.
    Trust(Trusting),
}

/// An object by which API servers learn whom to trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trusting {
    /// Defaults of services.
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

/// What was found out so far. Clones share one state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readiness {
    checks: Arc<RwLock<BTreeMap<Check, Result<(), String>>>>,
}

// === impl Readiness ===

impl Readiness {
    /// Waits for a check from now on.
    pub(crate) fn expect(&self, check: Check) {
        self.fail(check, "not yet");
    }

    /// It holds.
    pub(crate) fn done(&self, check: Check) {
        self.checks.write().insert(check, Ok(()));
    }

    /// It does not, and why.
    pub(crate) fn fail(&self, check: Check, why: impl Into<String>) {
        self.checks.write().insert(check, Err(why.into()));
    }

    /// Whether everything holds that is expected, and one line on each.
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
