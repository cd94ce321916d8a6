//! The fields of a header block (RFC 9113, section 8): what a call needs of them, and what makes them malformed.

use crate::server::{HEALTH_PATH, PATH};

/// The pseudo-header fields that a request has once. A CONNECT request lacks two of them, and this server is no proxy.
const METHOD: u8 = 1;
const SCHEME: u8 = 2;
const TARGET: u8 = 4;
const REQUIRED: u8 = METHOD | SCHEME | TARGET;
/// The one that it may have once.
const AUTHORITY: u8 = 8;
/// Any other field. No pseudo-header field may follow it.
const REGULAR: u8 = 16;

/// What the path of a call names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Path {
    /// The method of ext_proc.
    Process,
    /// The method of health checks.
    Health,
    #[default]
    Other,
}

/// The fields of one block.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// The fields so far.
    seen: u8,
    malformed: bool,
    pub(super) path: Path,
    /// Whether compressed messages have the encoding gzip.
    pub(super) gzip: bool,
    /// The announced length of the stream's data.
    pub(super) content_length: Option<u64>,
}

impl Fields {
    /// Reads the next field.
    pub(super) fn read(&mut self, name: &[u8], value: &[u8]) {
        if name.first() == Some(&b':') {
            self.read_pseudo(name, value);
        } else {
            self.seen |= REGULAR;
            self.malformed |= !is_name(name) || !self.read_regular(name, value);
        }
        self.malformed |= !is_value(value);
    }

    fn read_pseudo(&mut self, name: &[u8], value: &[u8]) {
        let field = match name {
            b":method" => METHOD,
            b":scheme" => SCHEME,
            b":path" => {
                self.path = match value {
                    _ if value == PATH.as_bytes() => Path::Process,
                    _ if value == HEALTH_PATH.as_bytes() => Path::Health,
                    _ => Path::Other,
                };
                self.malformed |= value.is_empty();
                TARGET
            }
            b":authority" => AUTHORITY,
            _ => 0,
        };
        self.malformed |= field == 0 || self.seen & (field | REGULAR) != 0;
        self.seen |= field;
    }

    /// Returns whether the field may be in a request.
    fn read_regular(&mut self, name: &[u8], value: &[u8]) -> bool {
        match name {
            b"grpc-encoding" => self.gzip = value == b"gzip",
            b"content-length" => {
                let length = std::str::from_utf8(value).ok().filter(|text| !text.starts_with('+'));
                let length = length.and_then(|text| text.parse().ok());
                // A length may be said again, but not another one.
                let same = self.content_length.is_none() || self.content_length == length;
                self.content_length = length;
                return same && length.is_some();
            }
            b"te" => return value == b"trailers",
            // These fields are about a connection of HTTP/1.
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
                return false;
            }
            _ => {}
        }
        true
    }

    /// Whether these are the headers of a request.
    pub(super) fn is_request(&self) -> bool {
        !self.malformed && self.seen & REQUIRED == REQUIRED
    }

    /// Whether these are trailers.
    pub(super) fn is_trailers(&self) -> bool {
        !self.malformed && self.seen & !REGULAR == 0
    }
}

/// Whether a name has neither upper-case letters nor characters that could end it in HTTP/1.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| matches!(byte, b'!'..=b'9' | b';'..=b'@' | b'['..=b'~'))
}

/// Whether a value has no white space at its ends, and no characters that could end it in HTTP/1. The fold looks at every
/// byte, so that the compiler can look at many of them at once.
fn is_value(value: &[u8]) -> bool {
    let is_space = |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b' ' | b'\t'));
    let ends = value.iter().fold(false, |ends, byte| ends | matches!(byte, b'\0' | b'\n' | b'\r'));
    !(ends || is_space(value.first()) || is_space(value.last()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: [(&str, &str); 5] = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", PATH),
        (":authority", "picker"),
        ("content-type", "application/grpc"),
    ];

    fn read(fields: &[(&str, &str)]) -> Fields {
        let mut read = Fields::default();
        for (name, value) in fields {
            read.read(name.as_bytes(), value.as_bytes());
        }
        read
    }

    #[test]
    fn a_request_has_each_pseudo_header_field_once_and_first() {
        assert!(read(&REQUEST).is_request() && read(&REQUEST).path == Path::Process);
        for (index, (name, _)) in REQUEST.iter().enumerate().take(3) {
            let mut fields = REQUEST.to_vec();
            fields.remove(index);
            assert!(!read(&fields).is_request(), "without {name}");
        }
        for (index, field) in REQUEST.into_iter().enumerate().take(4) {
            let mut twice = REQUEST.to_vec();
            twice.insert(4, field);
            assert!(!read(&twice).is_request(), "two of {}", field.0);
            let mut late = REQUEST.to_vec();
            late.remove(index);
            late.push(field);
            assert!(!read(&late).is_request(), "{} is last", field.0);
        }
        let mut other = REQUEST;
        other[2].1 = "";
        assert!(!read(&other).is_request(), "an empty path");
        other[2].1 = "/other";
        assert!(read(&other).is_request() && read(&other).path == Path::Other);
    }

    #[test]
    fn fields_of_requests_and_trailers_are_checked() {
        for (field, valid) in [
            (("x-request-id", "7"), true),
            (("te", "trailers"), true),
            (("te", "gzip"), false),
            (("connection", "close"), false),
            (("upgrade", "h2c"), false),
            (("X-Request-Id", "7"), false),
            (("x y", "7"), false),
            (("x:y", "7"), false),
            (("", "7"), false),
            (("x", "a\r\nb: c"), false),
            (("x", " a"), false),
            (("x", ""), true),
            (("content-length", "7"), true),
            (("content-length", "+7"), false),
            (("content-length", "seven"), false),
            (("content-length", "99999999999999999999"), false),
        ] {
            let mut request = REQUEST.to_vec();
            request.push(field);
            assert_eq!(
                (read(&request).is_request(), read(&[field]).is_trailers()),
                (valid, valid),
                "{field:?}"
            );
        }
        for name in [":status", ":method", ":unknown"] {
            assert!(!read(&[(name, "200")]).is_trailers(), "{name}");
        }
        assert_eq!(read(&[("content-length", "7"), ("content-length", "7")]).content_length, Some(7));
        assert!(!read(&[("content-length", "7"), ("content-length", "8")]).is_trailers());
    }
}
