//! Refusals of requests, in vLLM's JSON form.

use std::fmt;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    status: StatusCode,
    kind: &'static str,
    message: String,
    param: Option<String>,
}

// === impl Refusal ===

impl Refusal {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into(), param: None }
    }

    /// The request is invalid, or needs a feature that this model does not have.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequestError", message)
    }

    /// The value of one field is wrong.
    pub fn field(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..Self::bad_request(message) }
    }

    /// The value of a parameter is not allowed. vLLM then repeats the parameter, and some of its checks the value.
    pub fn parameter(param: &str, message: impl fmt::Display, value: Option<&dyn fmt::Display>) -> Self {
        let value = value.map(|value| format!(", value={value}")).unwrap_or_default();
        Self::field(param, format!("{message} (parameter={param}{value})"))
    }

    /// A field is missing or has the wrong type. The path is that of the library with which vLLM reads bodies.
    pub(crate) fn invalid(path: &str, message: impl Into<String>) -> Self {
        // A position in a list is a name like the others.
        let path = path.replace('[', ".").replace(']', "");
        let param = if path.is_empty() { "body".to_owned() } else { format!("body.{path}") };
        Self { param: Some(param), ..Self::new(StatusCode::BAD_REQUEST, "Bad Request", message) }
    }

    /// The model is overloaded.
    pub fn overloaded(message: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequestsError", message)
    }

    /// A request finds no place to wait.
    pub fn queue_full() -> Self {
        Self::overloaded("The waiting queue is full; try again later.")
    }

    /// The client has no access.
    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "AuthenticationError", message)
    }

    /// The model is not available at the moment.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailableError", message)
    }

    /// A request about adapters is invalid; vLLM has a type of its own for this.
    pub(crate) fn invalid_input(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "InvalidUserInput", message)
    }

    /// The requested resource does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFoundError", message)
    }

    /// A dependency of the answer has failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", message)
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "BadRequestError", message)
    }

    pub(crate) fn unknown_model(name: &str, known: &[String]) -> Self {
        let message = format!("The model `{name}` does not exist. Valid aliases: {}.", known.join(", "));
        Self { param: Some("model".into()), ..Self::not_found(message) }
    }

    pub(crate) fn unknown_response(id: &str) -> Self {
        let message = format!("Response with id '{id}' not found.");
        let param = Some("response_id".into());
        Self { param, ..Self::new(StatusCode::NOT_FOUND, "invalid_request_error", message) }
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowedError", "Method Not Allowed")
    }

    /// A field that the model does not honour.
    pub fn unsupported(param: &str) -> Self {
        Self::field(param, format!("{param} is not supported by this server: leave it out."))
    }

    /// Refuses the first of these fields that is set. The server supports none of them.
    pub fn check_unsupported(fields: impl IntoIterator<Item = (&'static str, bool)>) -> Result<(), Self> {
        match fields.into_iter().find(|(_, is_set)| *is_set) {
            Some((name, _)) => Err(Self::unsupported(name)),
            None => Ok(()),
        }
    }

    /// Returns the message for the client.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl From<longboat_accept::Refusal> for Refusal {
    fn from(refusal: longboat_accept::Refusal) -> Self {
        let kind = match refusal {
            longboat_accept::Refusal::Ambiguous(_) => "BadRequestError",
            _ => "PermissionDeniedError",
        };
        Self::new(refusal.status(), kind, refusal.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({"error": {
            "message": self.message, "type": self.kind, "param": self.param, "code": self.status.as_u16(),
        }});
        (self.status, Json(body)).into_response()
    }
}
