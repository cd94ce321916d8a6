//! Errors in the form of `Status` objects, which Kubernetes clients understand.

use std::collections::HashSet;

pub use longboat_strategy::{Cause, kinds::StatusDetails};
use serde_json::{Map, Value, json};

/// An error answer: HTTP code, reason, message and details.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// HTTP status code.
    pub code: u16,
    /// `NotFound`, `Conflict`, …; empty for an internal error without one.
    pub reason: &'static str,
    /// The message that kubectl prints.
    pub message: String,
    /// `details` of the Status.
    pub details: Option<Map<String, Value>>,
    /// Seconds for the `Retry-After` header.
    pub retry_after: Option<u32>,
}

// === impl ApiError ===

impl ApiError {
    /// An error without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, retry_after: None }
    }

    pub(crate) fn with_details(self, details: Map<String, Value>) -> Self {
        Self { details: Some(details), ..self }
    }

    /// 400 BadRequest.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 500 InternalError, worded as in kube-apiserver.
    pub fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        let details = [("causes".to_owned(), json!([{"message": message}]))].into_iter().collect();
        Self::new(500, "InternalError", format!("Internal error occurred: {message}")).with_details(details)
    }

    /// 500 without a reason, as kube-apiserver answers requests that it does not foresee.
    pub(crate) fn unexpected_error(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// 404 for an object that does not exist.
    pub fn not_found(about: StatusDetails<'_>) -> Self {
        let message = format!("{} \"{}\" not found", about.qualified(), about.name);
        Self::new(404, "NotFound", message).with_details(about.details())
    }

    /// 404 for a path that names no resource.
    pub(crate) fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
            .with_details(Map::new())
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).with_details(Map::new())
    }

    /// 409 AlreadyExists.
    pub(crate) fn already_exists(about: StatusDetails<'_>) -> Self {
        let message = format!("{} \"{}\" already exists", about.qualified(), about.name);
        Self::new(409, "AlreadyExists", message).with_details(about.details())
    }

    /// 409 Conflict.
    pub fn conflict(about: StatusDetails<'_>, why: impl AsRef<str>) -> Self {
        let (what, name, why) = (about.qualified(), about.name, why.as_ref());
        let message = format!("Operation cannot be fulfilled on {what} \"{name}\": {why}");
        Self::new(409, "Conflict", message).with_details(about.details())
    }

    /// 403 Forbidden for an operation on an object.
    pub fn forbidden(about: StatusDetails<'_>, why: impl AsRef<str>) -> Self {
        let message = format!("{} \"{}\" is forbidden: {}", about.qualified(), about.name, why.as_ref());
        Self::new(403, "Forbidden", message).with_details(about.details())
    }

    /// 422 Invalid with its causes; `about.kind` is the kind here, not the plural.
    pub fn invalid(about: StatusDetails<'_>, causes: &[Cause]) -> Self {
        let mut seen = HashSet::new();
        let texts = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message));
        let texts: Vec<String> = texts.filter(|text| seen.insert(text.clone())).collect();
        let text = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} \"{}\" is invalid: {text}", about.qualified(), about.name);
        let mut details = about.details();
        details.insert("causes".to_owned(), causes.iter().map(Cause::to_json).collect());
        Self::new(422, "Invalid", message).with_details(details)
    }

    /// 415 with the accepted media types.
    pub(crate) fn unsupported_media_type(accepted: &str) -> Self {
        Self::new(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {accepted}"
            ),
        )
    }

    /// 406 with the media types that can be produced.
    pub(crate) fn not_acceptable(produced: &str) -> Self {
        Self::new(406, "NotAcceptable", format!("only the following media types are accepted: {produced}"))
    }

    /// 410 for a revision that is no longer in the window.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The `Status` object.
    pub(crate) fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = Value::from(self.reason);
        }
        if let Some(details) = &self.details {
            status["details"] = Value::Object(details.clone());
        }
        status
    }
}
