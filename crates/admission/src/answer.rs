//! What admission answers.

use longboat_api::{v1alpha2::GROUP, validation::Report};
use serde_json::{Value, json};

/// The answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Why the request is refused; none lets it pass.
    pub denial: Option<Denial>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq)]
pub struct Denial {
    /// HTTP status code.
    pub code: u16,
    /// Reason of the Status.
    pub reason: &'static str,
    /// Message of the Status.
    pub message: String,
    /// `details` of the Status, with the causes by field; null where there are none.
    pub details: Value,
}

// === impl Denial ===

impl Denial {
    /// The `Status` of a webhook's answer, or of an API server's.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
            "code": self.code, "reason": self.reason, "message": self.message,
        });
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }

    pub(crate) fn bad_request(message: String) -> Self {
        Self { code: 400, reason: "BadRequest", message, details: Value::Null }
    }

    pub(crate) fn forbidden(message: String) -> Self {
        Self { code: 403, reason: "Forbidden", message, details: Value::Null }
    }

    pub(crate) fn invalid(kind: &str, name: &str, report: &Report) -> Self {
        let causes: Vec<Value> = report
            .errors
            .iter()
            .map(|cause| json!({"reason": cause.kind.reason(), "field": cause.field, "message": cause.message}))
            .collect();
        Self {
            code: 422,
            reason: "Invalid",
            message: report.message(kind, name),
            details: json!({"group": GROUP, "kind": kind, "name": name, "causes": causes}),
        }
    }
}
