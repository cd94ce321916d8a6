//! Errors by field, as `details.causes` of a Status carries them (contract 01 §8.1).

use serde::Serialize;

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// What kind of error it is.
    pub kind: CauseKind,
    /// Path of the field, from `spec` or `metadata`.
    pub field: String,
    /// What is wrong with it, with the value.
    pub message: String,
}

/// What a validation found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

// === impl Report ===

impl Report {
    /// Whether the object is accepted.
    pub fn is_accepted(&self) -> bool {
        self.errors.is_empty()
    }

    /// The text of a refusal: `<Kind>.serving.kserve.io "<name>" is invalid: …`.
    pub fn message(&self, kind: &str, name: &str) -> String {
        let mut lines: Vec<String> = Vec::with_capacity(self.errors.len());
        for cause in &self.errors {
            let line = format!("{}: {}", cause.field, cause.message);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        let all = match lines.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        format!("{kind}.{} {name:?} is invalid: {all}", crate::v1alpha2::GROUP)
    }

    /// Adds an error about a wrong value.
    pub(super) fn invalid(&mut self, field: impl Into<String>, value: &impl Serialize, detail: &str) {
        let message = format!("Invalid value: {}: {detail}", rendered(value));
        self.errors.push(Cause { kind: CauseKind::Invalid, field: field.into(), message });
    }

    /// Adds an error about a missing value.
    pub(super) fn required(&mut self, field: impl Into<String>, detail: &str) {
        let message = format!("Required value: {detail}");
        self.errors.push(Cause { kind: CauseKind::Required, field: field.into(), message });
    }

    /// Adds an error about a value that must not be there.
    pub(super) fn forbidden(&mut self, field: impl Into<String>, detail: &str) {
        let message = format!("Forbidden: {detail}");
        self.errors.push(Cause { kind: CauseKind::Forbidden, field: field.into(), message });
    }

    /// Adds an error about a value that is not among the supported ones.
    pub(super) fn not_supported(&mut self, field: impl Into<String>, value: &impl Serialize, detail: &str) {
        let message = format!("Unsupported value: {}: {detail}", rendered(value));
        self.errors.push(Cause { kind: CauseKind::NotSupported, field: field.into(), message });
    }

    /// Adds a warning.
    pub(super) fn warn(&mut self, text: impl Into<String>) {
        self.warnings.push(text.into());
    }
}

/// A value in a message: compact JSON.
fn rendered(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
