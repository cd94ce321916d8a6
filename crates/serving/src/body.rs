//! Request bodies: JSON of limited size. Errors have the API's own form and name the field.

use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
};
use serde::de::DeserializeOwned;

use crate::Refusal;

/// A decoded body. The Content-Type is ignored, because curl users forget it.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let body = Bytes::from_request(request, state).await.map_err(|rejection| {
            match rejection.status().as_u16() {
                413 => Refusal::too_large(rejection.body_text()),
                _ => Refusal::bad_request(rejection.body_text()),
            }
        })?;
        decode(&body).map(Self)
    }
}

/// Decodes a body.
pub(crate) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        // The library writes `.` for the path if the body as a whole is wrong.
        if path == "." {
            Refusal::invalid("", format!("request body: {}", error.inner()))
        } else {
            Refusal::invalid(&path, format!("{path}: {}", error.inner()))
        }
    })?;
    reader.end().map_err(|error| Refusal::invalid("", format!("request body: {error}")))?;
    Ok(value)
}
