//! Headers between two HTTP connections (RFC 9110 §7.6).

use http::{HeaderName, HeaderValue, Version, header, request::Parts};

use longboat_api::sidecar_headers;
use longboat_extproc::names::STEERING;

use super::arrival::Arrival;

/// Replaces Host by `:authority`, as Envoy does, so that rules match what the request is routed by (RFC 9113 §8.3.1).
pub(super) fn set_host_of_http2(head: &mut Parts) {
    if head.version == Version::HTTP_2 {
        set_host(head);
    }
}

fn set_host(head: &mut Parts) {
    if let Some(authority) = head.uri.authority()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        head.headers.insert(header::HOST, host);
    }
}

/// Prepares a client's request head for a back end.
pub(crate) fn for_upstream(head: &mut Parts, arrival: &Arrival) {
    longboat_accept::forward_request(&mut head.headers, arrival.peer.ip());
    // A client of HTTP/1.1 that takes this for its proxy has the host in the target, whatever the field says (RFC 9112 §3.2.2).
    set_host(head);
    // HTTP/2 may divide the cookies, and HTTP/1.1 may not (RFC 9113 §8.2.3).
    let cookies: Vec<_> = head.headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if cookies.len() > 1
        && let Ok(cookies) = HeaderValue::from_bytes(&cookies.join(&b"; "[..]))
    {
        head.headers.insert(header::COOKIE, cookies);
    }
    let scheme = if arrival.server_name.is_some() { "https" } else { "http" };
    head.headers.insert(HeaderName::from_static("x-forwarded-proto"), HeaderValue::from_static(scheme));
    longboat_accept::mark_forwarded(&mut head.headers, head.version);
    for name in routing_headers() {
        head.headers.remove(name);
    }
}

/// Request headers that determine which servers a request goes to. Only a picker may set them.
pub(super) fn routing_headers() -> impl Iterator<Item = &'static str> {
    STEERING.into_iter().chain(sidecar_headers::ALL)
}

#[cfg(test)]
mod tests {
    use longboat_accept::ProtocolSwitch;

    use super::*;

    #[test]
    fn the_host_of_the_target_counts_and_cookies_of_http_2_become_one_header() {
        let request = http::Request::get("http://a.example/").version(http::Version::HTTP_2);
        let request = request.header("host", "b.example");
        let request = request.header("cookie", "a=b").header("cookie", "c=d");
        let (mut head, ()) = request.body(()).unwrap().into_parts();
        let peer = "127.0.0.1:1".parse().unwrap();
        let arrival = Arrival { peer, local: peer, server_name: None, switch: ProtocolSwitch::default() };
        for_upstream(&mut head, &arrival);
        let cookies: Vec<_> = head.headers.get_all(header::COOKIE).iter().collect();
        assert_eq!(cookies, ["a=b; c=d"]);
        assert_eq!(head.headers[header::HOST], "a.example");
    }
}
