//! Responses that the gateway itself creates.

use std::error::Error;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use super::{
    body::ProxyBody,
    upload::{Upload, UploadError},
    upstream::SendError,
};

/// The `Retry-After` in seconds if there was no memory for a body. Bodies only stay in memory for moments.
const RETRY_AFTER: &str = "1";

/// The content type of texts.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

/// The message of a refusal that is plain text.
#[derive(Clone)]
struct Refusal(String);

/// A refusal with a message for people, marked as coming from the gateway and not from the model.
pub(crate) fn refuse(status: StatusCode, message: &str) -> Response<ProxyBody> {
    let message = format!("longboat gateway: {message}");
    let mut response = page(status, TEXT, format!("{message}\n"));
    response.extensions_mut().insert(Refusal(message));
    response
}

/// A response of this type of content.
pub(crate) fn page(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<ProxyBody> {
    let mut response = Response::new(ProxyBody::full(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Gives a refusal the form that clients of a model's API read. Returns other responses unchanged.
pub(crate) fn as_api_error(mut response: Response<ProxyBody>) -> Response<ProxyBody> {
    let Some(Refusal(message)) = response.extensions_mut().remove() else { return response };
    // The headers stay: a refusal may have `Retry-After`, or close its connection.
    let (mut head, _) = response.into_parts();
    let (error, body) = refuse_as_engines(head.status, &message).into_parts();
    head.headers.extend(error.headers);
    Response::from_parts(head, body)
}

/// The response to a request that no back end accepted.
pub(crate) fn failed(error: &SendError) -> Response<ProxyBody> {
    let status = match error {
        SendError::Failed(error) if let Some(error) = upload_error(error) => return refused_as(error),
        SendError::NoEndpoint => StatusCode::SERVICE_UNAVAILABLE,
        SendError::Timeout => StatusCode::GATEWAY_TIMEOUT,
        SendError::Failed(_) | SendError::Policy(_) | SendError::Coded(_) | SendError::Flood => {
            StatusCode::BAD_GATEWAY
        }
        SendError::Upload(error) => return refused_as(error),
    };
    tracing::debug!(%error, "No back end accepted a request.");
    refuse(status, &error.to_string())
}

/// Returns what was wrong with the body of the client, if an exchange failed because of that.
fn upload_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a UploadError> {
    std::iter::successors(Some(error), |&error| error.source()).find_map(|error| error.downcast_ref())
}

/// The response to a request whose body cannot be used. Reads the rest of the body first, so that the client reads the
/// response.
pub(crate) async fn refused(error: &UploadError, upload: &mut Upload) -> Response<ProxyBody> {
    upload.discard().await;
    refused_as(error)
}

/// The response to a request whose body cannot be used.
pub(crate) fn refused_as(error: &UploadError) -> Response<ProxyBody> {
    let status = match error {
        UploadError::Cut(_) => StatusCode::BAD_REQUEST,
        UploadError::Idle | UploadError::Slow => StatusCode::REQUEST_TIMEOUT,
        UploadError::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        UploadError::Full => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut response = refuse(status, &error.to_string());
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
    }
    response
}

/// An error in OpenAI's format.
pub(crate) struct ApiError<'a> {
    pub(crate) kind: &'a str,
    pub(crate) message: &'a str,
    pub(crate) param: Option<&'a str>,
    pub(crate) code: Option<&'a str>,
}

// === impl ApiError ===

impl ApiError<'_> {
    pub(crate) fn response(&self, status: StatusCode) -> Response<ProxyBody> {
        let Self { kind, message, param, code } = self;
        json_response(
            status,
            &json!({"error": {"message": message, "type": kind, "param": param, "code": code}}),
        )
    }
}

/// A refusal in the form that vLLM gives its own, for clients that read the message of an error and not its body.
pub(crate) fn refuse_as_engines(status: StatusCode, message: &str) -> Response<ProxyBody> {
    let error = json!({
        "message": message, "type": status.canonical_reason().unwrap_or("Error"), "param": null, "code": status.as_u16()});
    json_response(status, &json!({"error": error}))
}

/// A response with this JSON.
pub(crate) fn json_response(status: StatusCode, body: &Value) -> Response<ProxyBody> {
    page(status, "application/json", format!("{body}\n"))
}
