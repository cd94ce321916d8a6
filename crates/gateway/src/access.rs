//! Access control: the host names for which requests are accepted, and the web pages from which they are accepted.
//!
//! Every web page in this machine's browser can reach a gateway on the loopback address: through a name that its owner
//! points to 127.0.0.1 (DNS rebinding), or with cross-origin requests. Both are visible in the headers.

use http::uri::Authority;

use crate::attach::host_matches;

/// What is allowed in addition to loopback names, addresses, and the host names of routes.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Further host names for which requests are accepted. A `*.` at the start stands for one or more labels.
    pub hosts: Vec<String>,
    /// Origins whose pages may send requests and read the responses, such as `https://chat.example` or
    /// `http://localhost:3000`; `*` means any.
    pub origins: Vec<String>,
}

/// The origin of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Not a web page, or a page that the gateway itself served.
    Own,
    /// A page that may read the responses.
    Shared,
}

// === impl Access ===

impl Access {
    /// Whether requests for a host are served. `routed` says whether a route has the host name.
    pub(crate) fn host(&self, host: &str, routed: impl Fn(&str) -> bool) -> bool {
        is_local(host) || self.hosts.iter().any(|pattern| host_matches(pattern, host)) || routed(host)
    }

    /// Decides by the request's `Origin` header. Returns `None` if the request must be refused. Pages on this machine may
    /// send requests, because programs on this machine may, too. They may not read the responses unless they are listed.
    pub(crate) fn origin(&self, origin: Option<&str>, routed: impl Fn(&str) -> bool) -> Option<Origin> {
        let Some(origin) = origin else { return Some(Origin::Own) };
        if self.origins.iter().any(|allowed| allowed == "*" || allowed.eq_ignore_ascii_case(origin)) {
            return Some(Origin::Shared);
        }
        let (_, authority) = origin.split_once("://")?;
        let authority: Authority = authority.parse().ok()?;
        self.host(authority.host(), routed).then_some(Origin::Own)
    }
}

/// Whether a host is a name or address that nobody else can make a browser resolve to this machine. An address is not
/// resolved at all.
fn is_local(host: &str) -> bool {
    let host = host.trim_end_matches('.');
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.parse::<std::net::IpAddr>().is_ok()
        || host.eq_ignore_ascii_case("localhost")
        || host_matches("*.localhost", host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_else_can_point_here_is_allowed_and_what_is_named() {
        let access = Access { hosts: vec!["*.lab".into()], origins: Vec::new() };
        let routed = |host: &str| host == "chat.example";
        for host in [
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "127.0.0.1",
            "[::1]",
            "10.0.0.7",
            "x.lab",
            "chat.example",
        ] {
            assert!(access.host(host, routed), "{host}");
        }
        for host in ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "lab"] {
            assert!(!access.host(host, routed), "{host}");
        }
    }

    #[test]
    fn a_named_origin_may_read_a_local_one_may_ask_and_others_may_not() {
        let access = Access { hosts: Vec::new(), origins: vec!["https://chat.example".into()] };
        let decide = |origin| access.origin(origin, |_| false);
        assert_eq!(decide(None), Some(Origin::Own));
        assert_eq!(decide(Some("https://chat.example")), Some(Origin::Shared));
        assert_eq!(decide(Some("http://localhost:3000")), Some(Origin::Own));
        for origin in ["https://evil.example", "http://chat.example", "null", ""] {
            assert_eq!(decide(Some(origin)), None, "{origin}");
        }
    }
}
