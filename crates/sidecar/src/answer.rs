//! The sidecar's own responses, in the form of vLLM's errors.

use http::{HeaderValue, Response, StatusCode, header};
use longboat_accept::Refusal;
use serde::Serialize;

use crate::body::{ProxyBody, full};

/// Clients and dashboards look for this text.
const NOT_READY: &str = "The decode node is not ready. Please check that the vLLM service is running and the port configuration is correct.";

/// The same body as in the reference, byte for byte.
const NO_CACHE_IN_TIME: &str = r#"{"error":"decode aborted: prefill did not complete within the MoRI-IO parallel-dispatch KV-wait timeout"}"#;

#[derive(Serialize)]
struct ErrorBody<'a> {
    object: &'static str,
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    param: &'static str,
    code: u16,
}

/// An error in vLLM's form.
pub(crate) fn error(status: StatusCode, message: &str) -> Response<ProxyBody> {
    let kind = match status {
        StatusCode::BAD_REQUEST => "BadRequestError",
        StatusCode::FORBIDDEN => "PermissionDenied",
        StatusCode::METHOD_NOT_ALLOWED => "MethodNotAllowed",
        StatusCode::REQUEST_TIMEOUT => "RequestTimeout",
        StatusCode::PAYLOAD_TOO_LARGE => "RequestEntityTooLarge",
        StatusCode::BAD_GATEWAY => "BadGateway",
        StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailable",
        StatusCode::GATEWAY_TIMEOUT => "GatewayTimeout",
        _ => "InternalServerError",
    };
    let body = ErrorBody { object: "error", message, kind, param: "", code: status.as_u16() };
    let mut response = Response::new(full(serde_json::to_vec(&body).unwrap_or_default()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The refusal of a request that is ambiguous or comes from a page of another site. The connection is closed, because the
/// start of the request after an ambiguous one is uncertain too.
pub(crate) fn refused(why: &Refusal) -> Response<ProxyBody> {
    let mut response = error(why.status(), &why.to_string());
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Removes all headers of a response except `Content-Type`.
pub(crate) fn bare(response: &mut Response<ProxyBody>) {
    let kind = response.headers_mut().remove(header::CONTENT_TYPE);
    response.headers_mut().clear();
    if let Some(kind) = kind {
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
}

/// Nothing listens on the engine's port.
pub(crate) fn decoder_not_ready() -> Response<ProxyBody> {
    error(StatusCode::SERVICE_UNAVAILABLE, NOT_READY)
}

/// The response when the cache that the decoder waits for does not arrive in time.
pub(crate) fn no_cache_in_time() -> Response<ProxyBody> {
    let body = full(NO_CACHE_IN_TIME);
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// The target is not a pod of the pool.
pub(crate) fn forbidden() -> Response<ProxyBody> {
    let mut response = Response::new(full("Forbidden: prefill target not allowed by SSRF protection\n"));
    *response.status_mut() = StatusCode::FORBIDDEN;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// The response of the health check. It does not depend on the engine.
pub(crate) fn healthy() -> Response<ProxyBody> {
    Response::new(full(""))
}
