//! Errors of the API.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::StatusCode;
use serde_json::json;

/// An error: an HTTP status, and a sentence for the person.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) sentence: String,
}

// === impl Problem ===

impl Problem {
    /// The request is invalid.
    pub(crate) fn wrong(sentence: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, sentence: sentence.into() }
    }

    /// The cluster, a pod or a service failed to provide what the request needs.
    pub(crate) fn failed(sentence: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_GATEWAY, sentence: sentence.into() }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, Json(json!({"error": self.sentence}))).into_response()
    }
}
