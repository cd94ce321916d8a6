//! Errors by field, as `details.causes` of a Status carries them.

use serde::Serialize;
use serde_json::Value;

/// What kind of error a cause is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CauseKind {
    /// The value is wrong.
    Invalid,
    /// A value is missing.
    Required,
    /// There must be no value.
    Forbidden,
    /// The value is none of those that are supported.
    NotSupported,
}

/// One error.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// What kind of error it is.
    pub kind: CauseKind,
    /// Path of the field, from `spec` or `metadata`.
    pub field: String,
    /// The value that is wrong or not supported; null where it is missing or must not be.
    pub value: Value,
    /// What is wrong with it.
    pub detail: String,
}

/// What a validation found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Why the object is refused; empty when it is accepted.
    pub errors: Vec<Cause>,
    /// What the user should know, whether accepted or not.
    pub warnings: Vec<String>,
}

// === impl CauseKind ===

impl CauseKind {
    /// The reason on the wire.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Required => "FieldValueRequired",
            Self::Forbidden => "FieldValueForbidden",
            Self::NotSupported => "FieldValueNotSupported",
        }
    }
}

// === impl Cause ===

impl Cause {
    /// What is wrong, with the value as `print` words it.
    pub fn message(&self, print: impl FnOnce(&Value) -> String) -> String {
        match self.kind {
            CauseKind::Invalid => format!("Invalid value: {}: {}", print(&self.value), self.detail),
            CauseKind::NotSupported => format!("Unsupported value: {}: {}", print(&self.value), self.detail),
            CauseKind::Required => format!("Required value: {}", self.detail),
            CauseKind::Forbidden => format!("Forbidden: {}", self.detail),
        }
    }
}

// === impl Report ===

impl Report {
    /// Whether the object is accepted.
    pub fn is_accepted(&self) -> bool {
        self.errors.is_empty()
    }

    /// Adds an error about a wrong value.
    pub(super) fn invalid(&mut self, field: impl Into<String>, value: &impl Serialize, detail: &str) {
        self.add(CauseKind::Invalid, field, serde_json::to_value(value).unwrap_or_default(), detail);
    }

    /// Adds an error about a missing value.
    pub(super) fn required(&mut self, field: impl Into<String>, detail: &str) {
        self.add(CauseKind::Required, field, Value::Null, detail);
    }

    /// Adds an error about a value that must not be there.
    pub(super) fn forbidden(&mut self, field: impl Into<String>, detail: &str) {
        self.add(CauseKind::Forbidden, field, Value::Null, detail);
    }

    /// Adds an error about a value that is not among the supported ones.
    pub(super) fn not_supported(&mut self, field: impl Into<String>, value: &impl Serialize, detail: &str) {
        self.add(CauseKind::NotSupported, field, serde_json::to_value(value).unwrap_or_default(), detail);
    }

    fn add(&mut self, kind: CauseKind, field: impl Into<String>, value: Value, detail: &str) {
        self.errors.push(Cause { kind, field: field.into(), value, detail: detail.to_owned() });
    }

    /// Adds a warning.
    pub(super) fn warn(&mut self, text: impl Into<String>) {
        self.warnings.push(text.into());
    }
}
