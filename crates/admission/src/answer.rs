//! The result of admission.

use longboat_api::{v1alpha2::GROUP, validation::Report};
use longboat_compose::go;
use longboat_patch::gofmt::quote;
use serde_json::{Value, json};

use crate::Subject;

/// The result of admission.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Why the request is refused; `None` if it is allowed.
    pub denial: Option<Denial>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq)]
pub struct Denial {
    /// HTTP status code.
    pub code: u16,
    /// Reason of the Status; may be empty.
    pub reason: &'static str,
    /// Message of the Status.
    pub message: String,
    /// `details` of the Status, with the causes by field; null if there are none.
    pub details: Value,
}

// === impl Denial ===

impl Denial {
    /// Returns the `Status` for the response of a webhook or of an API server.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
            "code": self.code, "message": self.message,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }

    /// The reference sets no reason for these.
    pub(crate) fn bad_request(message: String) -> Self {
        Self { code: 400, reason: "", message, details: Value::Null }
    }

    pub(crate) fn forbidden(message: String) -> Self {
        Self { code: 403, reason: "Forbidden", message, details: Value::Null }
    }

    pub(crate) fn invalid(subject: Subject, name: &str, report: &Report) -> Self {
        let kind = subject.kind();
        let mut lines: Vec<String> = Vec::with_capacity(report.errors.len());
        let mut causes: Vec<Value> = Vec::with_capacity(report.errors.len());
        for cause in &report.errors {
            let message = cause.message(|value| match value {
                Value::String(text) => quote(text),
                Value::Object(_) | Value::Array(_) => go::printed(&cause.field, value),
                scalar => scalar.to_string(),
            });
            let line = format!("{}: {message}", cause.field);
            // As in Kubernetes, the message has equal lines once, and the causes have all of them.
            if !lines.contains(&line) {
                lines.push(line);
            }
            causes.push(json!({"reason": cause.kind.reason(), "field": cause.field, "message": message}));
        }
        let all = match lines.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        Self {
            code: 422,
            reason: "Invalid",
            message: format!("{kind}.{GROUP} {name:?} is invalid: {all}"),
            details: json!({"group": GROUP, "kind": kind, "name": name, "causes": causes}),
        }
    }
}
