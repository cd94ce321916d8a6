//! Access control: only the page that this server has served may use the API, opened by someone who knows its address.
//!
//! Hosts and origins are checked as on every loopback port (`longboat_accept::Guard`). Other users of the machine can send
//! any host and origin, so a request to the API must also have the token. The token is in the fragment of the address, which
//! browsers do not send to any server.

use std::net::SocketAddr;

use http::{StatusCode, header, request::Parts};
use longboat_accept::{Pages, Refusal};

/// Checks requests.
#[derive(Debug)]
pub(crate) struct Guard {
    pages: longboat_accept::Guard,
    token: String,
}

// === impl Guard ===

impl Guard {
    /// Creates a guard for the server at this address, with a new token.
    pub(crate) fn new(address: SocketAddr) -> Self {
        let pages = longboat_accept::Guard {
            pages: Pages::Own(&["http"]),
            port: Some(address.port()),
            ..longboat_accept::Guard::default()
        };
        Self { pages, token: format!("{:032x}", rand::random::<u128>()) }
    }

    /// Returns the token that the page must send.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Checks a request. With `secret`, the request must have the token.
    pub(crate) fn check(&self, head: &Parts, secret: bool) -> Result<(), StatusCode> {
        let checked = self.pages.check(head.version, &head.uri, &head.headers, |_| false);
        checked.map_err(|refusal| match refusal {
            Refusal::Ambiguous(_) | Refusal::Host(_) => StatusCode::MISDIRECTED_REQUEST,
            Refusal::Origin(_) => StatusCode::FORBIDDEN,
        })?;
        if secret && !self.has_token(&head.headers) {
            return Err(StatusCode::UNAUTHORIZED);
        }
        Ok(())
    }

    fn has_token(&self, headers: &http::HeaderMap) -> bool {
        let given =
            headers.get(header::AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        let given = given.unwrap_or_default();
        let own = self.token.as_bytes();
        // The comparison takes the same time for every token of this length, so that nobody can guess the token byte by
        // byte.
        given.len() == own.len()
            && given.iter().zip(own).fold(0, |differs, (given, own)| differs | (given ^ own)) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(guard: &Guard, headers: &[(&'static str, &str)]) -> Result<(), StatusCode> {
        let mut request = http::Request::get("/api/feed");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        guard.check(&request.body(()).unwrap().into_parts().0, true)
    }

    #[test]
    fn only_the_own_page_with_the_token_gets_in() {
        let guard = Guard::new("127.0.0.1:7000".parse().unwrap());
        let token = format!("Bearer {}", guard.token());
        let with = |host: &str, origin: Option<&str>| {
            let mut headers = vec![("host", host), ("authorization", token.as_str())];
            headers.extend(origin.map(|origin| ("origin", origin)));
            checked(&guard, &headers)
        };
        assert_eq!(with("127.0.0.1:7000", None), Ok(()));
        assert_eq!(with("localhost:7000", Some("http://localhost:7000")), Ok(()));
        for host in ["", "127.0.0.1", "127.0.0.1:7001", "evil.example:7000", "127.0.0.1:7000.evil.example"] {
            assert_eq!(with(host, None), Err(StatusCode::MISDIRECTED_REQUEST), "{host}");
        }
        for origin in ["null", "https://127.0.0.1:7000", "http://localhost:7000", "http://evil.example", ""] {
            assert_eq!(with("127.0.0.1:7000", Some(origin)), Err(StatusCode::FORBIDDEN), "{origin}");
        }
        let several = [("host", "127.0.0.1:7000"), ("host", "evil.example"), ("authorization", &token)];
        assert_eq!(checked(&guard, &several), Err(StatusCode::MISDIRECTED_REQUEST));
        let other = format!("Bearer {:032x}", 7);
        for token in ["", "Bearer ", "Bearer x", guard.token(), &other, &format!("{token}0")] {
            let headers = [("host", "127.0.0.1:7000"), ("authorization", token)];
            assert_eq!(checked(&guard, &headers), Err(StatusCode::UNAUTHORIZED), "{token}");
        }
    }

    #[test]
    fn tokens_of_two_servers_differ() {
        let address = "127.0.0.1:7000".parse().unwrap();
        assert_ne!(Guard::new(address).token(), Guard::new(address).token());
    }
}
