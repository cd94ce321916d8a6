//! Findings: what is wrong, why, and what to do.

use serde::Serialize;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something does not work.
    Broken,
    /// It works, but not forever, or not as expected.
    Warning,
}

/// A problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its severity.
    pub severity: Severity,
    /// The kind of fault in one word, for programs. These words are stable.
    pub fault: &'static str,
    /// The affected object: kind, and namespace and name if it has them.
    pub object: String,
    /// The steps from that object to the cause, the nearest first.
    pub chain: Vec<String>,
    /// The first cause.
    pub cause: String,
    /// What to do: a command to run, or a field to change.
    pub fix: String,
}

/// Faults that do not disappear with time: somebody has to change something.
const LASTING: [&str; 11] = [
    "CertificateUnusable",
    "ComposedSpecInvalid",
    "ConfigNotFound",
    "ContainerNotCreated",
    "ControllerFailed",
    "LayersDoNotCombine",
    "ModelNotFetched",
    "NoLocalProgram",
    "PickerConfigRefused",
    "PodsRefused",
    "SecretMissing",
];

// === impl Finding ===

impl Finding {
    /// Whether the problem stays until somebody changes something.
    pub fn is_permanent(&self) -> bool {
        LASTING.contains(&self.fault)
    }
}

/// A cause, without the affected object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) fault: &'static str,
    pub(crate) chain: Vec<String>,
    pub(crate) text: String,
    pub(crate) fix: String,
}

// === impl Cause ===

impl Cause {
    pub(crate) fn new(fault: &'static str, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { fault, chain: Vec::new(), text: text.into(), fix: fix.into() }
    }

    /// Returns the same cause with another step before it.
    pub(crate) fn through(mut self, step: impl Into<String>) -> Self {
        self.chain.insert(0, step.into());
        self
    }

    pub(crate) fn broken(self, object: impl Into<String>) -> Finding {
        self.of(Severity::Broken, object)
    }

    pub(crate) fn warning_about(self, object: impl Into<String>) -> Finding {
        self.of(Severity::Warning, object)
    }

    fn of(self, severity: Severity, object: impl Into<String>) -> Finding {
        let Self { fault, chain, text, fix } = self;
        Finding { severity, fault, object: object.into(), chain, cause: text, fix }
    }
}
