//! Filters headers between the client and the engines (RFC 9110 §7.6), and defines the headers that control the sidecar.

use std::net::SocketAddr;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use longboat_api::sidecar_headers;
use uuid::Uuid;

/// The endpoints that may compute the prompt.
pub(crate) const PREFILLER: HeaderName = HeaderName::from_static(sidecar_headers::PREFILL);
/// The engine of this pod that decodes.
pub(crate) const RANK: HeaderName = HeaderName::from_static(sidecar_headers::RANK);
/// The endpoints that encode images, videos and audio.
pub(crate) const ENCODERS: HeaderName = HeaderName::from_static(sidecar_headers::ENCODE);
/// An engine that has cached a part of the prompt.
pub(crate) const SOURCE: HeaderName = HeaderName::from_static(sidecar_headers::CACHE_SOURCE);
/// The rank that takes the request, if the ranks of an engine share a port.
pub(crate) const ENGINE_RANK: HeaderName = HeaderName::from_static("x-data-parallel-rank");
/// The id of the request, which is the same for both engines.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Headers that control this sidecar. They are removed, so that a sidecar behind this one does not obey them.
const STEERING: [HeaderName; 3] = [PREFILLER, ENCODERS, SOURCE];

/// Changes a client's headers to those that an engine may see.
pub(crate) fn for_engine(headers: &mut HeaderMap, peer: SocketAddr, authority: Option<&str>) {
    longboat_accept::forward_request(headers, peer.ip());
    // hyper has told the client to continue, and an engine would say it again.
    headers.remove(header::EXPECT);
    for name in &STEERING {
        headers.remove(name);
    }
    // HTTP/2 has the host in the `:authority` pseudo-header, and a target with a host counts before the field. The HTTP/1.1 request to
    // the engine needs `Host`.
    if let Some(host) = authority.and_then(|authority| HeaderValue::from_str(authority).ok()) {
        headers.insert(header::HOST, host);
    }
}

/// The client's request id, for logs.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(&REQUEST_ID).and_then(|id| id.to_str().ok())
}

/// Sets the request id for both engines: the client's id, or else this one.
pub(crate) fn identify(headers: &mut HeaderMap, id: Uuid) {
    let client_id = headers.get(&REQUEST_ID).filter(|id| !id.is_empty()).cloned();
    if let Some(id) = client_id.or_else(|| HeaderValue::from_str(&id.to_string()).ok()) {
        headers.insert(REQUEST_ID, id);
    }
}

/// Sets this request id, and replaces the client's.
pub(crate) fn name(headers: &mut HeaderMap, id: Uuid) {
    headers.remove(&REQUEST_ID);
    identify(headers, id);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_cannot_take_the_id_away_that_both_engines_need() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONNECTION, HeaderValue::from_static("X-Request-Id"));
        headers.insert(REQUEST_ID, HeaderValue::from_static("r1"));
        for_engine(&mut headers, "127.0.0.1:1".parse().unwrap(), None);
        identify(&mut headers, Uuid::new_v4());
        let id = headers.get(&REQUEST_ID).unwrap();
        assert_ne!(id, "r1");
        assert_eq!(headers.get_all(&REQUEST_ID).iter().count(), 1);
    }

    #[test]
    fn of_several_ids_one_is_left() {
        let mut headers = HeaderMap::new();
        headers.append(REQUEST_ID, HeaderValue::from_static("a"));
        headers.append(REQUEST_ID, HeaderValue::from_static("b"));
        identify(&mut headers, Uuid::new_v4());
        assert_eq!(headers.get_all(&REQUEST_ID).iter().collect::<Vec<_>>(), ["a"]);
    }
}
