//! Decides whether a request is accepted: it must be unambiguous, and its host and origin must be allowed.

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header, request::Parts};
use longboat_accept::Ambiguity;

use super::{answer::refuse, body::ProxyBody};
use crate::{
    access::{Access, Origin},
    route::Table,
};

/// How long a browser may cache the result of a preflight.
const PREFLIGHT_SECONDS: &str = "600";

/// Response headers that pages may read.
const EXPOSED: &str = "x-request-id, x-inference-pod, retry-after";

/// Why a request is not accepted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(transparent)]
    Ambiguous(#[from] Ambiguity),
    #[error("host `{0}` is not allowed: add it with --allow-host, or to the hostnames of a route")]
    ForeignHost(String),
    #[error("pages of origin `{0}` may not send requests: allow the origin with --cors-origin")]
    ForeignOrigin(String),
}

/// Checks a request's host and origin.
pub(crate) fn admit(head: &Parts, table: &Table, access: &Access) -> Result<Origin, Refusal> {
    let authority = longboat_accept::host(head.version, &head.uri, &head.headers)?;
    let routed = |host: &str| table.names_host(host);
    // A browser always names a host. A request without a host only matches routes for any host.
    if let Some(foreign) = authority.filter(|authority| !access.host(authority.host(), routed)) {
        return Err(Refusal::ForeignHost(foreign.host().to_owned()));
    }
    let mut origins = head.headers.get_all(header::ORIGIN).iter();
    let origin = origins.next().map(|origin| origin.to_str().unwrap_or_default());
    let foreign = || Refusal::ForeignOrigin(origin.unwrap_or_default().to_owned());
    if origins.next().is_some() {
        return Err(foreign());
    }
    access.origin(origin, routed).ok_or_else(foreign)
}

/// Returns the response to a CORS preflight, or `None` if the request is not a preflight.
pub(crate) fn preflight(head: &Parts, origin: Origin) -> Option<Response<ProxyBody>> {
    if origin != Origin::Shared
        || head.method != Method::OPTIONS
        || !head.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
    {
        return None;
    }
    let mut response = Response::new(ProxyBody::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    let asked = |name| head.headers.get(name).cloned();
    let methods = asked(header::ACCESS_CONTROL_REQUEST_METHOD);
    headers.extend(methods.map(|value| (header::ACCESS_CONTROL_ALLOW_METHODS, value)));
    let names = asked(header::ACCESS_CONTROL_REQUEST_HEADERS);
    headers.extend(names.map(|value| (header::ACCESS_CONTROL_ALLOW_HEADERS, value)));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_SECONDS));
    Some(response)
}

/// Adds CORS headers if the page of the request may read the response. Credentials are never allowed.
pub(crate) fn share(asked: Option<HeaderValue>, origin: Origin, headers: &mut HeaderMap) {
    // CORS headers of the back end are dropped: this gateway decides.
    headers.remove(header::ACCESS_CONTROL_ALLOW_ORIGIN);
    headers.remove(header::ACCESS_CONTROL_ALLOW_CREDENTIALS);
    if let (Origin::Shared, Some(asked)) = (origin, asked) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, asked);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
    }
}

// === impl Refusal ===

impl Refusal {
    /// Converts the refusal to a response, after which the connection closes.
    pub(crate) fn answer(&self) -> Response<ProxyBody> {
        let status = match self {
            Self::Ambiguous(_) => StatusCode::BAD_REQUEST,
            Self::ForeignHost(_) | Self::ForeignOrigin(_) => StatusCode::FORBIDDEN,
        };
        let mut response = refuse(status, &self.to_string());
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    }
}
