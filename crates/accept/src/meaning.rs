//! Checks that a request is unambiguous: it has one length, one host, and a transfer coding that hyper decodes.

use http::{HeaderMap, Uri, Version, header, uri::Authority};

use crate::{framing::is_ambiguous, hop_by_hop::lost_codings};

/// Why a request is ambiguous or incomplete. The server must answer it with an error and close the connection.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Ambiguity {
    /// The end of the body is uncertain.
    #[error("Transfer-Encoding and Content-Length cannot be used together")]
    Length,
    /// The body has transfer codings that nobody here decodes (RFC 9112 §6.1).
    #[error("transfer codings `{0}` are not supported: use `chunked` alone")]
    Codings(String),
    /// The request names no host.
    #[error("a request needs a Host header, and this one has none")]
    NoHost,
    /// The request has several Host headers.
    #[error("a request needs exactly one Host header, and this one has several")]
    Hosts,
    /// The request's host is invalid.
    #[error("`{0}` is not a host name")]
    Host(String),
}

/// Returns the one host of a request that came over a [`FramingStream`](crate::FramingStream) connection. Returns `None` for an HTTP/1.0
/// request without a host, which is valid.
pub fn host(version: Version, target: &Uri, headers: &HeaderMap) -> Result<Option<Authority>, Ambiguity> {
    if is_ambiguous(headers) {
        return Err(Ambiguity::Length);
    }
    if let Some(codings) = lost_codings(headers) {
        return Err(Ambiguity::Codings(codings));
    }
    // HTTP/2 has the host in `:authority`. As in Envoy, a Host header beside it has no meaning (RFC 9113 §8.3.1).
    let authority = target.authority().filter(|_| version == Version::HTTP_2);
    let mut hosts = headers.get_all(header::HOST).iter().filter(|_| authority.is_none());
    let host = match (hosts.next(), hosts.next()) {
        (host, None) => host.map(|host| host.to_str().unwrap_or_default()),
        _ => return Err(Ambiguity::Hosts),
    };
    let text = match (target.authority(), host) {
        (Some(target), None) if version == Version::HTTP_2 => target.as_str(),
        (None, None) if version <= Version::HTTP_10 => return Ok(None),
        (_, None) => return Err(Ambiguity::NoHost),
        // A target with a host is for proxies, which ignore the header (RFC 9112 §3.2.2).
        (Some(target), Some(_)) => target.as_str(),
        (None, Some(host)) => host,
    };
    let authority: Authority = text.parse().map_err(|_| Ambiguity::Host(text.to_owned()))?;
    if authority.as_str().contains('@') || authority.host().is_empty() {
        return Err(Ambiguity::Host(text.to_owned()));
    }
    Ok(Some(authority))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(version: Version, target: &str, hosts: &[&str]) -> Result<Option<String>, Ambiguity> {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, host.parse().unwrap());
        }
        Ok(host(version, &target.parse().unwrap(), &headers)?.map(|host| host.to_string()))
    }

    #[test]
    fn a_request_names_one_host_and_before_http_1_1_none_is_enough() {
        for version in [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2] {
            assert_eq!(of(version, "/", &["a:80"]), Ok(Some("a:80".into())));
            assert_eq!(of(version, "http://A/", &["a"]), Ok(Some("A".into())));
            assert_eq!(of(version, "/", &["a", "a"]), Err(Ambiguity::Hosts));
            for wrong in ["", "a@b", ":80", "a b"] {
                assert_eq!(of(version, "/", &[wrong]), Err(Ambiguity::Host(wrong.into())), "{wrong}");
            }
        }
        assert_eq!(of(Version::HTTP_11, "http://b/", &["a"]), Ok(Some("b".into())));
        for discarded in [&["a"][..], &["b:80"], &["a", "c"], &[""]] {
            assert_eq!(of(Version::HTTP_2, "http://b/", discarded), Ok(Some("b".into())), "{discarded:?}");
        }
        assert_eq!(of(Version::HTTP_10, "/", &[]), Ok(None));
        assert_eq!(of(Version::HTTP_10, "http://a/", &[]), Err(Ambiguity::NoHost));
        assert_eq!(of(Version::HTTP_11, "/", &[]), Err(Ambiguity::NoHost));
        assert_eq!(of(Version::HTTP_11, "http://a/", &[]), Err(Ambiguity::NoHost));
        assert_eq!(of(Version::HTTP_2, "http://a/", &[]), Ok(Some("a".into())));
    }

    #[test]
    fn only_chunked_is_decoded() {
        for (codings, is_known) in
            [("chunked", true), ("Chunked", true), ("gzip, chunked", false), ("gzip", false)]
        {
            let headers = [("host", "a"), ("transfer-encoding", codings)];
            let headers = headers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            let read = host(Version::HTTP_11, &"/".parse().unwrap(), &headers.into_iter().collect());
            assert_eq!(read.is_ok(), is_known, "{codings}");
        }
    }
}
