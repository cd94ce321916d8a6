//! Access control of servers on a loopback address: the hosts for which requests are accepted, and the web pages from which
//! they are accepted.
//!
//! Every web page in this machine's browser can reach a loopback address: through a name that its owner points to 127.0.0.1
//! (DNS rebinding), or with cross-origin requests. Both are visible in the headers. Other users of the machine reach it too,
//! and no header shows that: a server that must refuse them needs a token as well.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderValue, StatusCode, Uri, Version, header, uri::Authority};

use crate::meaning::{self, Ambiguity};

/// The name of the gateway in `Via`.
const GATEWAY: &str = "longboat";

/// Decides which requests a server accepts.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    /// Hosts for which requests are accepted, besides loopback names and addresses. A `*.` at the start stands for one or
    /// more labels.
    pub hosts: Vec<String>,
    /// The port that requests must name. `None` for any port.
    pub port: Option<u16>,
    /// Origins whose pages may send requests and read the responses, such as `https://chat.example` or
    /// `http://localhost:3000`; `*` means any.
    pub origins: Vec<String>,
    /// The other pages that may send requests.
    pub pages: Pages,
    /// Whether requests from the gateway are accepted for any host and page, because the gateway has checked them.
    pub behind_gateway: bool,
}

/// The pages that may send requests without being listed.
#[derive(Debug, Clone, Copy, Default)]
pub enum Pages {
    /// Pages of every host that is accepted as the host of a request. Pages of this machine may send requests because its
    /// programs may, too.
    #[default]
    OfAcceptedHosts,
    /// Pages of the server itself, with one of these schemes.
    Own(&'static [&'static str]),
}

/// The sender of an accepted request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// Not a web page, or a page that may send requests but not read responses of another origin.
    Own,
    /// A page of a listed origin, which may read the responses.
    Listed,
}

/// Why a request is not accepted.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Refusal {
    /// The request is ambiguous.
    #[error(transparent)]
    Ambiguous(#[from] Ambiguity),
    /// The request is for another host.
    #[error("host `{0}` is not a name of this machine: use localhost or a loopback address")]
    Host(String),
    /// A page of another site has sent the request.
    #[error("pages of origin `{0}` may not use this server")]
    Origin(String),
}

// === impl Refusal ===

impl Refusal {
    /// The status of the response.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Ambiguous(Ambiguity::Codings(_)) => StatusCode::NOT_IMPLEMENTED,
            Self::Ambiguous(_) => StatusCode::BAD_REQUEST,
            Self::Host(_) | Self::Origin(_) => StatusCode::FORBIDDEN,
        }
    }
}

// === impl Guard ===

impl Guard {
    /// Returns the guard of a server to which the gateway forwards requests. Returns `None` if the server does not listen on
    /// a loopback address: then it serves a network, where host names are not known in advance.
    pub fn of_back_end(listener: SocketAddr) -> Option<Self> {
        let loopback = listener.ip().to_canonical().is_loopback();
        loopback.then(|| Self { behind_gateway: true, ..Self::default() })
    }

    /// Checks the host and the origin of a request. `routed` says whether a host is accepted for another reason.
    ///
    /// # Errors
    ///
    /// If the request must be refused. An ambiguous request must also close its connection.
    pub fn check(
        &self,
        version: Version,
        target: &Uri,
        headers: &HeaderMap,
        routed: impl Fn(&str) -> bool,
    ) -> Result<Sender, Refusal> {
        let host = meaning::host(version, target, headers)?;
        if self.behind_gateway && comes_from_gateway(headers) {
            return Ok(Sender::Own);
        }
        let accepts = |host: &str| self.has_host(host) || routed(host);
        // A browser always names a host, so a request without one (HTTP/1.0) comes from no page.
        if let Some(host) = &host
            && !(accepts(host.host()) && self.port.is_none_or(|port| host.port_u16() == Some(port)))
        {
            return Err(Refusal::Host(host.host().to_owned()));
        }
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let Some(origin) = origins.next() else { return Ok(Sender::Own) };
        let origin = origin.to_str().unwrap_or_default();
        let refused = || Refusal::Origin(origin.to_owned());
        if origins.next().is_some() {
            return Err(refused());
        }
        if self.origins.iter().any(|listed| listed == "*" || listed.eq_ignore_ascii_case(origin)) {
            return Ok(Sender::Listed);
        }
        let (scheme, page) = origin.split_once("://").ok_or_else(refused)?;
        let page: Authority = page.parse().map_err(|_| refused())?;
        let may_send = match self.pages {
            Pages::OfAcceptedHosts => accepts(page.host()),
            Pages::Own(schemes) => {
                schemes.contains(&scheme) && host.is_some_and(|host| is_same(scheme, &page, &host))
            }
        };
        may_send.then_some(Sender::Own).ok_or_else(refused)
    }

    /// Whether a host is a name or address that nobody else can make a browser resolve to this machine. An address of a
    /// network is not one: a page of another machine has such a host too.
    fn has_host(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        match address(host) {
            Some(ip) => ip.is_loopback() || self.hosts.iter().any(|own| address(own) == Some(ip)),
            None => {
                host.eq_ignore_ascii_case("localhost")
                    || host_matches("*.localhost", host)
                    || self.hosts.iter().any(|pattern| host_matches(pattern, host))
            }
        }
    }
}

/// Adds the gateway to `Via` (RFC 9110 §7.6.3). Browsers let no page set this field, so servers behind the gateway recognise
/// the requests that it has checked.
pub fn mark_forwarded(headers: &mut HeaderMap, received: Version) {
    let protocol = match received {
        Version::HTTP_2 => "2",
        Version::HTTP_10 => "1.0",
        _ => "1.1",
    };
    if let Ok(value) = HeaderValue::from_str(&format!("{protocol} {GATEWAY}")) {
        headers.append(header::VIA, value);
    }
}

/// Whether the last proxy that has forwarded a request is the gateway. A page can send its requests through a proxy that
/// resolves names on this machine, and that proxy is then the last one.
fn comes_from_gateway(headers: &HeaderMap) -> bool {
    let last = headers.get_all(header::VIA).iter().next_back().and_then(|value| value.to_str().ok());
    let proxy = last.and_then(|list| list.rsplit(',').next()?.split_whitespace().nth(1));
    proxy == Some(GATEWAY)
}

fn address(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

fn is_same(scheme: &str, page: &Authority, host: &Authority) -> bool {
    let default = if scheme == "https" { 443 } else { 80 };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(default);
    page.host().eq_ignore_ascii_case(host.host()) && port(page) == port(host)
}

/// Whether a pattern covers a host. A `*.` at the start of the pattern stands for one or more labels.
pub fn host_matches(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(suffix) => {
            host.len() > suffix.len() && host.to_ascii_lowercase().ends_with(&suffix.to_ascii_lowercase())
        }
        None => pattern.eq_ignore_ascii_case(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a request with these header lines.
    fn verdict(guard: &Guard, lines: &[(&str, &str)]) -> Result<Sender, Refusal> {
        let mut request = http::Request::get("/");
        for (name, value) in lines {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        guard.check(head.version, &head.uri, &head.headers, |host| host == "chat.example")
    }

    #[test]
    fn only_hosts_that_nobody_else_can_point_here_are_accepted_and_those_that_are_named() {
        let guard = Guard { hosts: vec!["*.lab".into(), "10.0.0.8".into()], ..Guard::default() };
        for host in [
            "localhost",
            "LOCALHOST.",
            "a.localhost:80",
            "127.0.0.1",
            "127.64.0.9:8000",
            "[::1]:80",
            "[::ffff:127.0.0.1]",
            "x.lab",
            "10.0.0.8",
            "[::ffff:10.0.0.8]",
            "chat.example",
        ] {
            assert_eq!(verdict(&guard, &[("host", host)]), Ok(Sender::Own), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "lab",
            "10.0.0.7",
            "0.0.0.0",
            "[::]",
            "[2001:db8::1]",
        ] {
            let refused = Err(Refusal::Host(host.to_owned()));
            assert_eq!(verdict(&guard, &[("host", host)]), refused, "{host}");
        }
        assert!(matches!(verdict(&guard, &[("host", "")]), Err(Refusal::Ambiguous(_))));
        assert!(matches!(verdict(&guard, &[]), Err(Refusal::Ambiguous(_))));
    }

    #[test]
    fn a_listed_origin_may_read_a_page_of_this_machine_may_send_and_others_may_not() {
        let guard = Guard { origins: vec!["https://chat.example".into()], ..Guard::default() };
        let from = |origin: &str| verdict(&guard, &[("host", "localhost:8000"), ("origin", origin)]);
        assert_eq!(from("https://chat.example"), Ok(Sender::Listed));
        for origin in ["http://localhost:3000", "http://127.0.0.1", "http://chat.example"] {
            assert_eq!(from(origin), Ok(Sender::Own), "{origin}");
        }
        for origin in ["https://evil.example", "http://10.0.0.7", "http://0.0.0.0:8000", "null", ""] {
            assert_eq!(from(origin), Err(Refusal::Origin(origin.to_owned())), "{origin}");
        }
        let twice =
            [("host", "localhost"), ("origin", "http://localhost"), ("origin", "https://evil.example")];
        assert!(matches!(verdict(&guard, &twice), Err(Refusal::Origin(_))));
    }

    #[test]
    fn where_only_own_pages_may_send_scheme_host_and_port_are_compared() {
        let guard = Guard { pages: Pages::Own(&["http"]), port: Some(7000), ..Guard::default() };
        let from = |host: &str, origin: &str| verdict(&guard, &[("host", host), ("origin", origin)]);
        assert_eq!(from("localhost:7000", "http://LOCALHOST:7000"), Ok(Sender::Own));
        for origin in ["http://localhost", "http://localhost:3000", "https://localhost:7000"] {
            let refused = Err(Refusal::Origin(origin.to_owned()));
            assert_eq!(from("localhost:7000", origin), refused, "{origin}");
        }
        for host in ["localhost", "localhost:7001"] {
            let refused = Err(Refusal::Host("localhost".to_owned()));
            assert_eq!(from(host, &format!("http://{host}")), refused, "{host}");
        }
    }

    #[test]
    fn what_the_gateway_has_forwarded_is_accepted_behind_it_and_nowhere_else() {
        let foreign = [("host", "chat.lab"), ("origin", "https://chat.lab")];
        let with = |guard: &Guard, via: &[&str]| {
            let via = via.iter().map(|via| ("via", *via));
            verdict(guard, &foreign.into_iter().chain(via).collect::<Vec<_>>())
        };
        let guard = Guard::of_back_end(SocketAddr::from(([127, 64, 0, 1], 8000))).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(header::VIA, HeaderValue::from_static("1.1 other"));
        mark_forwarded(&mut headers, Version::HTTP_11);
        let forwarded: Vec<_> =
            headers.get_all(header::VIA).iter().map(|value| value.to_str().unwrap()).collect();
        assert_eq!(forwarded, ["1.1 other", "1.1 longboat"]);
        assert_eq!(with(&guard, &forwarded), Ok(Sender::Own));
        assert_eq!(with(&guard, &["1.1 other, 2 longboat"]), Ok(Sender::Own));
        for via in [&["1.1 longboat", "1.1 other"][..], &["1.1 longboat, 1.1 other"], &["longboat"], &[]] {
            assert_eq!(with(&guard, via), Err(Refusal::Host("chat.lab".into())), "{via:?}");
        }
        assert!(with(&Guard::default(), &forwarded).is_err());
        assert!(Guard::of_back_end(SocketAddr::from(([0, 0, 0, 0], 8000))).is_none());
    }
}
