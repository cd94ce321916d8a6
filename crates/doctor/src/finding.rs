//! What is wrong, why, and what to do about it.

use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something does not work.
    Broken,
    /// It works, and will not for ever, or not as somebody expects.
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What kind of fault it is, in one word for programs; these words do not change.
    pub fault: &'static str,
    /// Who suffers: kind, and namespace and name where it has them.
    pub object: String,
    /// What leads from there to the cause, the nearest first.
    pub chain: Vec<String>,
    /// The first cause.
    pub cause: String,
    /// What to do: a command, or a field to change.
    pub fix: String,
}

/// Faults that no waiting mends: somebody has to change something.
const LASTING: [&str; 8] = [
    "ComposedSpecInvalid",
    "ConfigNotFound",
    "ContainerNotCreated",
    "ControllerFailed",
    "LayersDoNotCombine",
    "ModelNotFetched",
    "NoLocalProgram",
    "PodsRefused",
];

// === impl Finding ===

impl Finding {
    /// Whether it stays as it is until somebody changes something, however long one waits.
    pub fn is_lasting(&self) -> bool {
        LASTING.contains(&self.fault)
    }
}

/// A cause without the one who suffers from it.
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

    /// The same cause, one step further away.
    pub(crate) fn through(mut self, step: impl Into<String>) -> Self {
        self.chain.insert(0, step.into());
        self
    }

    pub(crate) fn breaks(self, object: impl Into<String>) -> Finding {
        self.of(Severity::Broken, object)
    }

    pub(crate) fn threatens(self, object: impl Into<String>) -> Finding {
        self.of(Severity::Warning, object)
    }

    fn of(self, severity: Severity, object: impl Into<String>) -> Finding {
        let Self { fault, chain, text, fix } = self;
        Finding { severity, fault, object: object.into(), chain, cause: text, fix }
    }
}
