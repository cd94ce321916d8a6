//! Validation errors by field, as in `details.causes` of a Status.

use serde::Serialize;
use serde_json::Value;

/// The kind of a validation error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CauseKind {
    /// The value is wrong.
    Invalid,
    /// A value is missing.
    Required,
    /// A value is not allowed.
    Forbidden,
    /// The value is not one of the supported ones.
    NotSupported,
}

/// A validation error.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// The kind of the error.
    pub kind: CauseKind,
    /// Path of the field, from `spec` or `metadata`.
    pub field: String,
    /// The invalid or unsupported value; null for missing and forbidden values.
    pub value: Value,
    /// The explanation.
    pub detail: String,
}

/// The result of a validation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Why the object is refused; empty when it is accepted.
    pub errors: Vec<Cause>,
    /// Warnings for the user, independent of the errors.
    pub warnings: Vec<String>,
}

// === impl CauseKind ===

impl CauseKind {
    /// Returns the reason in the API.
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
    /// Returns the message, with the value formatted by `print`.
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

    /// Adds an error about a value that is not allowed.
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
