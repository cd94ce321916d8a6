//! Responses of the filter RequestRedirect.

use http::{HeaderValue, Response, header, request::Parts, uri::PathAndQuery};

use super::{arrival::Arrival, body::ProxyBody};
use crate::route::Redirect;

/// Redirects the client. What the filter does not say stays as in the request; without a scheme, the port is that of the
/// listener.
pub(super) fn redirected(
    redirect: &Redirect,
    head: &Parts,
    prefix: Option<&str>,
    arrival: &Arrival,
) -> Response<ProxyBody> {
    let header = || head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let authority =
        head.uri.authority().map(http::uri::Authority::as_str).or_else(header).unwrap_or_default();
    // The filter's own port counts, or that of the listener, and never the one that the client wrote.
    let name = authority.parse::<http::uri::Authority>();
    let name = name.as_ref().map_or(authority, |authority| authority.host());
    let own = if arrival.server_name.is_some() { "https" } else { "http" };
    let scheme = redirect.scheme.as_deref().unwrap_or(own);
    let well_known = if scheme == "https" { 443 } else { 80 };
    let implied = if redirect.scheme.is_some() { well_known } else { arrival.local.port() };
    let port = Some(redirect.port.unwrap_or(implied)).filter(|port| *port != well_known);
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let path = head.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    let path = redirect.path.as_ref().and_then(|change| change.apply(&path, prefix)).unwrap_or(path);
    let location = format!("{scheme}://{}{port}{path}", redirect.host.as_deref().unwrap_or(name));
    let mut response = Response::new(ProxyBody::empty());
    *response.status_mut() = redirect.status;
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}
