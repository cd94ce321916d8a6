//! Whether a request has one meaning: one length, and one host that it is for.

use http::{Version, header, request::Parts, uri::Authority};

use crate::is_ambiguous;

/// Why a request has several meanings, or none. It is to be answered with 400, and the connection to be closed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Ambiguity {
    /// Where the body ends is not certain.
    #[error("Transfer-Encoding and Content-Length exclude each other")]
    Length,
    /// It names no host.
    #[error("a request needs exactly one Host header, and this one has none")]
    NoHost,
    /// It names several hosts.
    #[error("a request needs exactly one Host header, which names the host of its target")]
    Hosts,
    /// What it names is no host.
    #[error("`{0}` is no host name")]
    Host(String),
}

/// The one host that a request is for, which came over a [`Framed`](crate::Framed) connection.
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
        // HTTP/2 has the host in the target, and clients may leave the header out.
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
