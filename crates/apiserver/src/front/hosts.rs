//! Checks which host names a request over a socket may use for this server, and which pages may send it.

use std::net::IpAddr;

use http::Request;
use longboat_accept::{Ambiguity, Guard, Pages, Refusal};

use crate::status::ApiError;

/// Names that always mean this server, besides those of the machine.
const NAMES: [&str; 4] =
    ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"];

/// The addresses and names that the clients of one connection may use for this server.
#[derive(Debug, Clone)]
pub(super) struct Hosts(Guard);

// === impl Hosts ===

impl Hosts {
    /// `address` is the local address of the connection. `names` are the names that were configured.
    pub(super) fn new(address: Option<IpAddr>, names: &[String]) -> Self {
        let address = address.map(|address| address.to_string());
        let hosts = NAMES.map(str::to_owned).into_iter().chain(address).chain(names.iter().cloned());
        let pages = Pages::Own(&["http", "https"]);
        Self(Guard { hosts: hosts.collect(), pages, ..Guard::default() })
    }

    /// Refuses a request whose host is not this server, whose host is ambiguous, or that a page of another site sent.
    pub(super) fn check<B>(&self, request: &Request<B>) -> Result<(), ApiError> {
        let checked = self.0.check(request.version(), request.uri(), request.headers(), |_| false);
        match checked {
            // This server needs a host, also from clients of HTTP/1.0.
            Ok(_) if request.uri().authority().is_none() && !request.headers().contains_key("host") => {
                Err(no_host())
            }
            Ok(_) => Ok(()),
            Err(Refusal::Host(host)) => Err(forbidden(format!(
                "unknown Host {host:?}: use 127.0.0.1, localhost or kubernetes.default.svc, or add the name \
                 with --host"
            ))),
            // The router refuses OPTIONS from everybody, so browsers get no CORS permission.
            Err(Refusal::Origin(_)) if request.method() == http::Method::OPTIONS => Ok(()),
            Err(Refusal::Origin(origin)) => Err(forbidden(format!(
                "the Origin {origin:?} is not allowed: web pages of other sites may not use this server"
            ))),
            Err(Refusal::Ambiguous(Ambiguity::NoHost)) => Err(no_host()),
            Err(Refusal::Ambiguous(ambiguity)) => Err(ApiError::bad_request(match ambiguity {
                Ambiguity::Hosts => "too many Host headers".to_owned(),
                Ambiguity::Host(_) => "malformed Host header".to_owned(),
                other => other.to_string(),
            })),
        }
    }
}

fn forbidden(message: String) -> ApiError {
    ApiError::new(403, "Forbidden", message)
}

fn no_host() -> ApiError {
    ApiError::bad_request("missing required Host header")
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
