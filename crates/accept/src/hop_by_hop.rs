//! Headers that a proxy must not pass on.

use http::{HeaderMap, HeaderName, header};

/// Headers that concern one connection and not the message (RFC 9110 §7.6.1), and those of older proxies and clients. `Trailer`
/// is not one of them, because the proxies of this workspace pass trailers on.
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Removes the headers that concern one connection: those above, and those that `Connection` names. `Host` is not one of them, even if
/// it is named: the request has been routed by it.
///
/// A length beside `Transfer-Encoding` goes too (RFC 9112 §6.3), because it is not that of the body that was read.
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .filter(|name| *name != header::HOST)
        .collect();
    if headers.contains_key(header::TRANSFER_ENCODING) {
        headers.remove(header::CONTENT_LENGTH);
    }
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn what_concerns_one_connection_goes_and_the_host_stays() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("host", "a.example"),
            ("connection", "close, Host, x-mine"),
            ("x-mine", "1"),
            ("x-other", "2"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("content-length", "2"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        remove_hop_by_hop(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["host", "x-other"]);
    }
}
