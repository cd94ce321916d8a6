//! Headers between two HTTP connections (RFC 9110 §7.6).

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, header};

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
    // Collected, because the headers change below.
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

/// Returns the transfer codings of a message if a proxy would lose some: hyper takes away `chunked` once, and no other.
pub fn lost_codings(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all(header::TRANSFER_ENCODING).iter().map(|line| line.to_str().unwrap_or("?"));
    let all = lines.collect::<Vec<_>>().join(", ");
    (!all.is_empty() && !all.trim().eq_ignore_ascii_case("chunked")).then_some(all)
}

/// Changes the headers of a request to those for the next server: removes what concerns one connection, and adds the client to
/// `X-Forwarded-For`.
pub fn forward_request(headers: &mut HeaderMap, client: IpAddr) {
    let accepts_trailers = headers.get(header::TE).is_some_and(|value| {
        value.to_str().is_ok_and(|list| list.split(',').any(|item| item.trim() == "trailers"))
    });
    remove_hop_by_hop(headers);
    // The proxies of this workspace pass trailers on, and gRPC servers refuse requests without it.
    if accepts_trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    let forwarded = HeaderName::from_static("x-forwarded-for");
    // Another proxy may have added a line of its own.
    let lines = headers.get_all(&forwarded).iter().filter_map(|value| value.to_str().ok());
    // A socket for IPv6 and IPv4 has clients like `::ffff:192.0.2.1`.
    let client = client.to_canonical().to_string();
    let chain = lines.chain([client.as_str()]).collect::<Vec<_>>().join(", ");
    if let Ok(value) = HeaderValue::from_str(&chain) {
        headers.insert(forwarded, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_server_learns_of_all_proxies_and_that_the_client_takes_trailers() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("te", "gzip, trailers"),
            ("x-forwarded-for", "192.0.2.1"),
            ("x-forwarded-for", "192.0.2.2, 2001:db8::1"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        forward_request(&mut headers, "::ffff:192.0.2.3".parse().unwrap());
        let mut all: Vec<_> =
            headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        all.sort_unstable();
        assert_eq!(
            all,
            [("te", "trailers"), ("x-forwarded-for", "192.0.2.1, 192.0.2.2, 2001:db8::1, 192.0.2.3")]
        );
    }

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
