//! The sidecar's own responses, in the form of vLLM's errors.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use longboat_accept::Refusal;
use longboat_tls::chain;
use serde::Serialize;

use crate::{
    body::{ProxyBody, full},
    upstream::SendError,
};

/// The type of responses that are plain text.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

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
        StatusCode::NOT_IMPLEMENTED => "NotImplementedError",
        StatusCode::BAD_GATEWAY => "BadGateway",
        StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailable",
        StatusCode::GATEWAY_TIMEOUT => "GatewayTimeout",
        _ => "InternalServerError",
    };
    let body = ErrorBody { object: "error", message, kind, param: "", code: status.as_u16() };
    of(status, "application/json", serde_json::to_vec(&body).unwrap_or_default())
}

/// A response with a body of this type.
pub(crate) fn of(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<ProxyBody> {
    let mut response = Response::new(full(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
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

/// The client's response if the engine gives none.
pub(crate) fn unreachable_decoder(error: &SendError) -> Response<ProxyBody> {
    tracing::warn!(error = chain(error), "The engine of this pod did not answer.");
    let mut causes = std::iter::successors(std::error::Error::source(error), |error| error.source());
    let io = causes.find_map(|error| error.downcast_ref::<std::io::Error>());
    // As in the reference: only this error means that no engine listens yet.
    if io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused) {
        return self::error(StatusCode::SERVICE_UNAVAILABLE, NOT_READY);
    }
    self::error(StatusCode::BAD_GATEWAY, &format!("the engine did not answer: {}", chain(error)))
}

/// The response when the cache that the decoder waits for does not arrive in time.
pub(crate) fn no_cache_in_time() -> Response<ProxyBody> {
    of(StatusCode::GATEWAY_TIMEOUT, TEXT, NO_CACHE_IN_TIME)
}

/// The target is not a pod of the pool.
pub(crate) fn forbidden() -> Response<ProxyBody> {
    of(StatusCode::FORBIDDEN, TEXT, "Forbidden: prefill target not allowed by SSRF protection\n")
}

/// The response of the health check. It does not depend on the engine.
pub(crate) fn healthy() -> Response<ProxyBody> {
    Response::new(full(""))
}
