//! Errors in vLLM's JSON form.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::engine::Overloaded;

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    status: StatusCode,
    kind: &'static str,
    message: String,
}

// === impl ApiError ===

impl ApiError {
    pub(crate) fn bad_request(message: String) -> Self {
        Self { status: StatusCode::BAD_REQUEST, kind: "BadRequestError", message }
    }

    pub(crate) fn too_large(message: String) -> Self {
        Self { status: StatusCode::PAYLOAD_TOO_LARGE, kind: "BadRequestError", message }
    }

    pub(crate) fn not_found(message: String) -> Self {
        Self { status: StatusCode::NOT_FOUND, kind: "NotFoundError", message }
    }

    pub(crate) fn unknown_model(name: &str) -> Self {
        Self::not_found(format!("The model `{name}` does not exist."))
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "Method Not Allowed".into();
        Self { status: StatusCode::METHOD_NOT_ALLOWED, kind: "MethodNotAllowedError", message }
    }
}

impl From<Overloaded> for ApiError {
    fn from(Overloaded: Overloaded) -> Self {
        Self {
            status: StatusCode::TOO_MANY_REQUESTS,
            kind: "TooManyRequestsError",
            message: "The waiting queue is full; try again later.".into(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = json!({"error": {
            "message": self.message, "type": self.kind, "param": null, "code": self.status.as_u16(),
        }});
        (self.status, Json(body)).into_response()
    }
}
