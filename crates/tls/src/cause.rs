//! Causes of errors, for messages.

use std::{error::Error, io};

use rustls::{CertificateError, InvalidMessage, pki_types::UnixTime};

/// Returns the innermost cause of an error. Of a failed connection, the outer ones only repeat the address.
pub fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    text(last)
}

/// Formats an error with all its causes.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut all = text(error);
    let mut source = error.source();
    while let Some(cause) = source {
        all = format!("{all}: {}", text(cause));
        source = cause.source();
    }
    all
}

/// Returns the error of TLS among an error and its causes.
pub fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    direct(error).or_else(|| tls_error(error.source()?))
}

/// The text of an error without its causes. Those of TLS are written for programmers.
fn text(error: &(dyn Error + 'static)) -> String {
    let of_tls = direct(error).and_then(handshake);
    let is_cut = error.downcast_ref().is_some_and(is_cut);
    let closed = || is_cut.then(|| "the connection was cut off".to_owned());
    of_tls.or_else(closed).unwrap_or_else(|| error.to_string())
}

/// The error of TLS that an error is, or that is in this I/O error: the error's `source` skips it.
fn direct<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    match error.downcast_ref::<io::Error>() {
        Some(outer) => direct(outer.get_ref()?),
        None => error.downcast_ref(),
    }
}

/// Whether a peer has closed its connection without the end that TLS requires. rustls' own text is a link to its manual.
fn is_cut(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof && error.to_string().contains("close_notify")
}

/// Why a handshake failed, for those who configure the peer.
fn handshake(error: &rustls::Error) -> Option<String> {
    let certificate = match error {
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            return Some("it does not speak TLS on this port".to_owned());
        }
        rustls::Error::InvalidCertificate(certificate) => certificate,
        _ => return None,
    };
    Some(match certificate {
        CertificateError::UnknownIssuer => {
            "its certificate was not issued by a CA that is trusted here".to_owned()
        }
        CertificateError::Expired => "its certificate has expired".to_owned(),
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("its certificate expired at {}", moment(*not_after))
        }
        CertificateError::NotValidYet => "its certificate is not valid yet".to_owned(),
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("its certificate is not valid before {}", moment(*not_before))
        }
        CertificateError::NotValidForNameContext { expected, presented } if !presented.is_empty() => {
            let names: Vec<_> = presented.iter().map(|name| plain(name)).collect();
            format!("its certificate is for {}, not for {}", names.join(", "), expected.to_str())
        }
        CertificateError::NotValidForNameContext { expected, .. } => {
            format!("its certificate names no host, and not {}", expected.to_str())
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "its certificate, or that of a CA above it, has a kind of key or signature that is not supported here"
                .to_owned()
        }
        _ => return None,
    })
}

/// A name of a certificate: `a.example` of `DnsName("a.example")`.
fn plain(name: &str) -> &str {
    name.split_once('(').map_or(name, |(_, rest)| rest.trim_end_matches(')').trim_matches('"'))
}

fn moment(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_error_of_a_handshake_says_what_is_wrong_with_the_peer() {
        let time = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let expired =
            CertificateError::ExpiredContext { time: time(2_000_000_000), not_after: time(1_769_904_000) };
        let other = CertificateError::NotValidForNameContext {
            expected: "other.example".try_into().unwrap(),
            presented: vec![r#"DnsName("be.example")"#.into(), "IpAddress(127.0.0.1)".into()],
        };
        let message = rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType);
        for (error, expected) in [
            (
                CertificateError::UnknownIssuer.into(),
                "its certificate was not issued by a CA that is trusted here",
            ),
            (expired.into(), "its certificate expired at 2026-02-01T00:00:00Z"),
            (other.into(), "its certificate is for be.example, 127.0.0.1, not for other.example"),
            (
                CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext {
                    signature_algorithm_id: vec![1],
                    public_key_algorithm_id: vec![2],
                }
                .into(),
                "its certificate, or that of a CA above it, has a kind of key or signature that is not supported here",
            ),
            (message, "it does not speak TLS on this port"),
        ] {
            // hyper and reqwest get the error within I/O errors.
            let error = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, error));
            assert_eq!(innermost(&error), expected);
            assert_eq!(chain(&error), expected);
        }
        let cut = "peer closed connection without sending TLS close_notify: https://example";
        let cut = io::Error::new(io::ErrorKind::UnexpectedEof, cut);
        assert_eq!(innermost(&cut), "the connection was cut off");
        let plain = io::Error::new(io::ErrorKind::NotFound, "no file");
        assert_eq!(chain(&plain), "no file");
    }
}
