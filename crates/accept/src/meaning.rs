//! Checks that a request is unambiguous: it has one length and one host.

use http::{Version, header, request::Parts, uri::Authority};

use crate::is_ambiguous;

/// Why a request is ambiguous or incomplete. The server must answer it with 400 and close the connection.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Ambiguity {
    /// The end of the body is uncertain.
    #[error("Transfer-Encoding and Content-Length exclude each other")]
    Length,
    /// The request names no host.
    #[error("a request needs exactly one Host header, and this one has none")]
    NoHost,
    /// The request names several hosts.
    #[error("a request needs exactly one Host header, which names the host of its target")]
    Hosts,
    /// The request's host is invalid.
    #[error("`{0}` is no host name")]
    Host(String),
}

/// Returns the one host of a request that came over a [`Framed`](crate::Framed) connection.
pub fn host(head: &Parts) -> Result<Authority, Ambiguity> {
    if is_ambiguous(&head.headers) {
        return Err(Ambiguity::Length);
    }
    let mut hosts = head.headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (host, None) => host.map(|host| host.to_str().unwrap_or_default()),
        _ => return Err(Ambiguity::Hosts),
    };
    let text = match (head.uri.authority(), host) {
        // HTTP/2 has the host in the target, and clients may omit the header.
        (Some(target), None) if head.version == Version::HTTP_2 => target.as_str(),
        (_, None) => return Err(Ambiguity::NoHost),
        (Some(target), Some(host)) if !target.as_str().eq_ignore_ascii_case(host) => {
            return Err(Ambiguity::Hosts);
        }
        (_, Some(host)) => host,
    };
    let authority: Authority = text.parse().map_err(|_| Ambiguity::Host(text.to_owned()))?;
    if authority.as_str().contains('@') || authority.host().is_empty() {
        return Err(Ambiguity::Host(text.to_owned()));
    }
    Ok(authority)
}
