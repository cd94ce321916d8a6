//! Decides whether a request is accepted: it must be unambiguous, and its host and origin must be allowed.

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header, request::Parts};
use longboat_accept::{Guard, Refusal, Sender};

use super::{answer::refuse, body::ProxyBody};
use crate::route::{Cors, Table};

/// How long a browser may cache the result of a preflight.
const PREFLIGHT_SECONDS: &str = "600";

/// Response headers that pages may read.
const EXPOSED: &str = "x-request-id, x-inference-pod, retry-after";

/// Checks a request's host and origin. A CORS filter of the route that the request takes decides about origins in its place.
/// The error is the response, after which the connection closes.
pub(crate) fn admit(
    head: &Parts,
    table: &Table,
    guard: Option<&Guard>,
    cors: Option<&Cors>,
) -> Result<Sender, Box<Response<ProxyBody>>> {
    let checked = match guard {
        Some(guard) => guard.check(head.version, &head.uri, &head.headers, |host| table.names_host(host)),
        None => longboat_accept::host(head.version, &head.uri, &head.headers)
            .map(|_| Sender::Own)
            .map_err(Refusal::from),
    };
    let refusal = match checked {
        Ok(sender) => return Ok(sender),
        Err(Refusal::Origin(origin)) if cors.is_some_and(|cors| cors.allows(&origin)) => {
            // Not `Listed`: the filter adds the headers with which the page reads the response.
            return Ok(Sender::Own);
        }
        Err(refusal) => refusal,
    };
    let message = match &refusal {
        Refusal::Ambiguous(_) => refusal.to_string(),
        Refusal::Host(host) => {
            format!(
                "host `{host}` is not allowed: add it with --allow-host, or to the hostnames of a route and of its listener"
            )
        }
        Refusal::Origin(origin) => {
            format!("pages of origin `{origin}` may not send requests: allow the origin with --cors-origin")
        }
    };
    let mut response = refuse(refusal.status(), &message);
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    Err(Box::new(response))
}

/// Returns the response to a CORS preflight, or `None` if the request is not a preflight, or if the back end decides.
pub(crate) fn preflight(head: &Parts, sender: Sender, cors: Option<&Cors>) -> Option<Response<ProxyBody>> {
    if head.method != Method::OPTIONS || !head.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let mut response = Response::new(ProxyBody::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    if let Some(cors) = cors.filter(|_| head.headers.contains_key(header::ORIGIN)) {
        let origin = head.headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
        if origin.is_some_and(|origin| cors.allows(origin)) {
            cors.answer_preflight(&head.headers, headers);
        }
        return Some(response);
    }
    if sender != Sender::Listed {
        return None;
    }
    let requested = |name| head.headers.get(name).cloned();
    let methods = requested(header::ACCESS_CONTROL_REQUEST_METHOD);
    headers.extend(methods.map(|value| (header::ACCESS_CONTROL_ALLOW_METHODS, value)));
    let names = requested(header::ACCESS_CONTROL_REQUEST_HEADERS);
    headers.extend(names.map(|value| (header::ACCESS_CONTROL_ALLOW_HEADERS, value)));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_SECONDS));
    Some(response)
}

/// Adds CORS headers if the page of the request may read the response. Credentials are never allowed, unless a CORS filter
/// allows them.
pub(crate) fn share(origin: Option<HeaderValue>, sender: Sender, headers: &mut HeaderMap) {
    // CORS headers of the back end are dropped: this gateway decides.
    headers.remove(header::ACCESS_CONTROL_ALLOW_ORIGIN);
    headers.remove(header::ACCESS_CONTROL_ALLOW_CREDENTIALS);
    if let (Sender::Listed, Some(origin)) = (sender, origin) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
    }
}
