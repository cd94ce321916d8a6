//! Header hygiene between the client and the engines (RFC 9110 §7.6), and the headers that steer the sidecar.

use std::net::SocketAddr;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use uuid::Uuid;

/// Where the prompt is to be computed: a list of endpoints.
pub(crate) const PREFILLER: HeaderName = HeaderName::from_static("x-prefiller-host-port");
/// Which of this pod's engines decodes.
pub(crate) const RANK: HeaderName = HeaderName::from_static("x-data-parallel-host-port");
/// Where images, videos and sounds are encoded: a list of endpoints.
pub(crate) const ENCODERS: HeaderName = HeaderName::from_static("x-encoder-hosts-ports");
/// An engine that has a part of the prompt cached.
pub(crate) const SOURCE: HeaderName = HeaderName::from_static("x-kv-cache-source-host-port");
/// Which of an engine's ranks takes the request, where they share a port.
pub(crate) const ENGINE_RANK: HeaderName = HeaderName::from_static("x-data-parallel-rank");
/// By which both engines know the request.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Headers that steer the sidecar, and which nobody behind it may take for its own.
const STEERING: [HeaderName; 3] = [PREFILLER, HeaderName::from_static("x-encoder-hosts-ports"), SOURCE];

/// Fields that speak of one connection, not of the message.
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::EXPECT,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// A client's headers as an engine may see them.
pub(crate) fn for_engine(headers: &mut HeaderMap, peer: SocketAddr, authority: Option<&str>) {
    strip(headers);
    let accepts_trailers = headers.get(header::TE).is_some_and(|value| {
        value.to_str().is_ok_and(|list| list.split(',').any(|item| item.trim() == "trailers"))
    });
    headers.remove(header::TE);
    if accepts_trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    for name in &STEERING {
        headers.remove(name);
    }
    // HTTP/2 has the host in its own place; HTTP/1.1 towards the engine needs the field.
    if let Some(host) = authority.and_then(|authority| HeaderValue::from_str(authority).ok()) {
        headers.entry(header::HOST).or_insert(host);
    }
    let forwarded = HeaderName::from_static("x-forwarded-for");
    let chain: Vec<&str> =
        headers.get_all(&forwarded).iter().filter_map(|value| value.to_str().ok()).collect();
    let ip = peer.ip().to_canonical().to_string();
    let chain = if chain.is_empty() { ip } else { format!("{}, {ip}", chain.join(", ")) };
    if let Ok(value) = HeaderValue::from_str(&chain) {
        headers.insert(forwarded, value);
    }
}

/// An engine's headers as the client may see them.
pub(crate) fn for_client(headers: &mut HeaderMap) {
    strip(headers);
}

/// Both engines must know the request by one name: the client's, or else this one.
pub(crate) fn identify(headers: &mut HeaderMap, id: Uuid) {
    let given = headers.get(&REQUEST_ID).filter(|id| !id.is_empty()).cloned();
    if let Some(id) = given.or_else(|| HeaderValue::from_str(&id.to_string()).ok()) {
        headers.insert(REQUEST_ID, id);
    }
}

/// Gives a request this name, whatever the client calls it.
pub(crate) fn name(headers: &mut HeaderMap, id: Uuid) {
    headers.remove(&REQUEST_ID);
    identify(headers, id);
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
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
