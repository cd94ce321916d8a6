//! A single problem of an object.

use std::fmt::Display;

use serde_json::{Value, json};

/// One entry of `details.causes`: the wrong field, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// `FieldValueInvalid`, `FieldValueRequired`, …
    pub reason: &'static str,
    /// `Invalid value: "x": must be …`
    pub message: String,
    /// Path of the field, `spec.template.spec.containers[0].name`.
    pub field: String,
}

// === impl Cause ===

impl Cause {
    /// A value that violates a rule. The message has `value` as JSON.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: impl AsRef<str>) -> Self {
        Self::invalid_as(field, shown(value), detail.as_ref())
    }

    /// A value that violates a rule, and that Kubernetes does not print as JSON.
    pub fn invalid_as(field: impl Into<String>, shown: impl Display, detail: impl Display) -> Self {
        let message = format!("Invalid value: {shown}: {detail}");
        Self { reason: "FieldValueInvalid", message, field: field.into() }
    }

    /// A value that is required and missing.
    pub fn required(field: impl Into<String>, detail: impl AsRef<str>) -> Self {
        let detail = detail.as_ref();
        let message =
            if detail.is_empty() { "Required value".to_owned() } else { format!("Required value: {detail}") };
        Self { reason: "FieldValueRequired", message, field: field.into() }
    }

    /// A value that is not among the supported ones.
    pub fn unsupported(field: impl Into<String>, value: &Value, known: &[&str]) -> Self {
        Self::unsupported_as(field, shown(value), known)
    }

    /// A value that is not among the supported ones, and that Kubernetes does not print as JSON.
    pub fn unsupported_as(field: impl Into<String>, shown: impl Display, known: &[&str]) -> Self {
        let known: Vec<String> = known.iter().map(|k| format!("\"{k}\"")).collect();
        let message = format!("Unsupported value: {shown}: supported values: {}", known.join(", "));
        Self { reason: "FieldValueNotSupported", message, field: field.into() }
    }

    /// A field that must not be set (or changed) here.
    pub fn forbidden(field: impl Into<String>, detail: impl AsRef<str>) -> Self {
        Self {
            reason: "FieldValueForbidden",
            message: format!("Forbidden: {}", detail.as_ref()),
            field: field.into(),
        }
    }

    /// A value that must be unique, and is repeated.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self {
            reason: "FieldValueDuplicate",
            message: format!("Duplicate value: {}", shown(value)),
            field: field.into(),
        }
    }

    /// A value that exceeds `most` bytes.
    pub fn too_long(field: impl Into<String>, most: usize) -> Self {
        Self {
            reason: "FieldValueTooLong",
            message: format!("Too long: may not be more than {most} bytes"),
            field: field.into(),
        }
    }

    /// A list or map with more than `most` elements.
    pub fn too_many(field: impl Into<String>, count: usize, most: impl Display) -> Self {
        Self {
            reason: "FieldValueTooMany",
            message: format!("Too many: {count}: must have at most {most} items"),
            field: field.into(),
        }
    }

    /// A reference to something that does not exist.
    pub fn not_found(field: impl Into<String>, value: &Value) -> Self {
        Self {
            reason: "FieldValueNotFound",
            message: format!("Not found: {}", shown(value)),
            field: field.into(),
        }
    }

    /// Returns the cause as an entry of `details.causes`.
    pub fn to_json(&self) -> Value {
        json!({"reason": self.reason, "message": self.message, "field": self.field})
    }
}

/// A value in a message: JSON without spaces.
fn shown(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
