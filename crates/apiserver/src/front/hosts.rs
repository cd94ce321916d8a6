//! Checks which host names a request over a socket may use for this server.
//!
//! A web page can make a host name of its own resolve to 127.0.0.1 and then talk to this server as if the server were the
//! page's origin (DNS rebinding). The browser still sends that name as Host, and the page's address as Origin. The server
//! checks both.

use std::net::IpAddr;

use http::{Request, Uri, header, uri::Authority};
use longboat_accept::Ambiguity;

use crate::status::ApiError;

/// Names that always mean this server.
const NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// The addresses and names that the clients of one connection may use for this server.
#[derive(Debug, Clone)]
pub(super) struct Hosts {
    /// The local address of the connection.
    address: Option<IpAddr>,
    /// Names that were configured.
    names: std::sync::Arc<[String]>,
}

// === impl Hosts ===

impl Hosts {
    pub(super) fn new(address: Option<IpAddr>, names: &[String]) -> Self {
        Self { address, names: names.into() }
    }

    /// Refuses a request whose host is not this server, whose host is ambiguous, or that a page of another site sent.
    pub(super) fn check<B>(&self, request: &Request<B>) -> Result<(), ApiError> {
        let headers = request.headers();
        let host = host(request)?;
        if !self.knows(host.host()) {
            return Err(forbidden(format!(
                "unknown Host {:?}: use 127.0.0.1, localhost or kubernetes.default.svc, or add the name \
                 with --host",
                host.host()
            )));
        }
        if request.method() == http::Method::OPTIONS {
            // The router refuses OPTIONS from everybody, so browsers get no CORS permission.
            return Ok(());
        }
        for origin in headers.get_all(header::ORIGIN) {
            let same =
                origin.to_str().ok().and_then(|origin| origin.parse::<Uri>().ok()).is_some_and(|origin| {
                    let port = |authority: &Authority| authority.port_u16().or_else(|| default_port(&origin));
                    origin.authority().is_some_and(|from| {
                        from.host().eq_ignore_ascii_case(host.host()) && port(from) == port(&host)
                    })
                });
            if !same {
                return Err(forbidden(format!(
                    "the Origin {:?} is not allowed: web pages of other sites may not use this server",
                    String::from_utf8_lossy(origin.as_bytes())
                )));
            }
        }
        Ok(())
    }

    fn knows(&self, host: &str) -> bool {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = bare.parse::<IpAddr>() {
            let address = address.to_canonical();
            return address.is_loopback() || self.address.is_some_and(|own| own.to_canonical() == address);
        }
        let name = host.strip_suffix('.').unwrap_or(host);
        let is = |known: &str| known.eq_ignore_ascii_case(name);
        NAMES.iter().any(|known| is(known)) || self.names.iter().any(|known| is(known))
    }
}

fn forbidden(message: String) -> ApiError {
    ApiError::new(403, "Forbidden", message)
}

fn default_port(origin: &Uri) -> Option<u16> {
    match origin.scheme_str() {
        Some("http") => Some(80),
        Some("https") => Some(443),
        _ => None,
    }
}

/// Returns the one host that a request names. An HTTP/1.0 request without a host is an error, because this server needs one.
fn host<B>(request: &Request<B>) -> Result<Authority, ApiError> {
    let named = longboat_accept::host(request.version(), request.uri(), request.headers());
    let message = match named {
        Ok(Some(host)) => return Ok(host),
        Ok(None) | Err(Ambiguity::NoHost) => "missing required Host header".to_owned(),
        Err(Ambiguity::Hosts) => "too many Host headers".to_owned(),
        Err(Ambiguity::Host(_)) => "malformed Host header".to_owned(),
        Err(other @ (Ambiguity::Length | Ambiguity::OtherHost)) => other.to_string(),
    };
    Err(ApiError::bad_request(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(lines: &[(&str, &str)]) -> u16 {
        let mut request = Request::get("/api");
        for (name, value) in lines {
            request = request.header(*name, *value);
        }
        let hosts = Hosts::new("10.1.2.3".parse().ok(), &["api.example".to_owned()]);
        hosts.check(&request.body(()).unwrap()).map_or_else(|error| error.code, |()| 200)
    }

    #[test]
    fn only_names_of_this_server_are_hosts() {
        for (host, code) in [
            ("localhost", 200),
            ("LOCALHOST.:80", 200),
            ("127.0.0.1:6443", 200),
            ("127.96.0.1", 200),
            ("[::1]:6443", 200),
            ("[::ffff:127.0.0.1]:6443", 200),
            ("10.1.2.3:6443", 200),
            ("10.1.2.4:6443", 403),
            ("kubernetes.default.svc", 200),
            ("api.example:443", 200),
            ("evil.example", 403),
            ("localhost.evil.example", 403),
            ("127.0.0.1.evil.example:6443", 403),
            ("kubernetes.default.svc.evil.example", 403),
            ("", 400),
            ("a@localhost", 400),
            ("a b", 400),
        ] {
            assert_eq!(verdict(&[("host", host)]), code, "{host}");
        }
        assert_eq!(verdict(&[]), 400);
        assert_eq!(verdict(&[("host", "localhost"), ("host", "localhost")]), 400);
    }

    #[test]
    fn only_pages_of_this_server_may_ask() {
        for (host, origin, code) in [
            ("localhost:6443", "http://localhost:6443", 200),
            ("localhost:6443", "https://LOCALHOST:6443", 200),
            ("localhost", "https://localhost:443", 200),
            ("localhost:6443", "http://localhost:3000", 403),
            ("localhost:6443", "http://localhost", 403),
            ("localhost:6443", "http://127.0.0.1:6443", 403),
            ("localhost:6443", "https://evil.example", 403),
            ("localhost:6443", "null", 403),
            ("localhost:6443", "", 403),
        ] {
            assert_eq!(verdict(&[("host", host), ("origin", origin)]), code, "{host} {origin}");
        }
    }
}
