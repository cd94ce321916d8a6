//! Answers that the gateway makes itself.

use http::{HeaderValue, Response, StatusCode, header};

use super::{body::ProxyBody, upstream::SendError};

/// A refusal with a sentence for whoever reads it, marked as coming from the gateway and not from the model.
pub(crate) fn refuse(status: StatusCode, message: &str) -> Response<ProxyBody> {
    let mut response = Response::new(ProxyBody::full(format!("longboat gateway: {message}\n").into()));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// The answer for a request that no back end took.
pub(crate) fn failed(error: &SendError) -> Response<ProxyBody> {
    let status = match error {
        SendError::NoEndpoint => StatusCode::SERVICE_UNAVAILABLE,
        SendError::Timeout => StatusCode::GATEWAY_TIMEOUT,
        SendError::Failed(_) => StatusCode::BAD_GATEWAY,
    };
    tracing::debug!(%error, "No back end took a request.");
    refuse(status, &error.to_string())
}
