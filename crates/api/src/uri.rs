//! Model URIs, normalised as in KServe.

use std::fmt;

use longboat_download::address::{Address, Scheme};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A URI as Go's `net/url` parses and prints it: with the scheme in lower case, the path percent-encoded where needed,
/// encoded slashes in the path decoded, and the query unchanged. Opaque URIs (`hf:org/model`) stay unchanged. An empty text
/// means no URI.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uri(String);

/// Why a text is not a URI.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parse {text:?}: {problem}")]
pub struct InvalidUri {
    text: String,
    problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("net/url: invalid control character in URL")]
    ControlCharacter,
    #[error("missing protocol scheme")]
    MissingScheme,
    #[error("first path segment in URL cannot contain colon")]
    ColonInFirstSegment,
    #[error("invalid URL escape {0:?}")]
    Escape(String),
    #[error("invalid character {0:?} in host name")]
    HostCharacter(String),
    #[error("invalid port {0:?} after host")]
    Port(String),
    #[error("missing ']' in host")]
    MissingBracket,
    #[error("net/url: invalid userinfo")]
    UserInfo,
}

// === impl Uri ===

impl Uri {
    /// Parses and normalises a URI.
    pub fn parse(text: &str) -> Result<Self, InvalidUri> {
        normalise(text).map(Self).map_err(|problem| InvalidUri { text: text.to_owned(), problem })
    }

    /// Returns the normalised text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the URI is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the address of a model that the URI is. Keys of buckets and paths of files are no URLs, so they are decoded.
    pub fn address(&self) -> Address {
        let address = Address::parse(&*self.0);
        if !is_literal(address.scheme()) {
            return address;
        }
        // Bytes that are no UTF-8 cannot be part of an address, which is a text. They stay encoded.
        let decoded = unescape(&self.0).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        decoded.map_or(address, Address::parse)
    }

    /// Returns the text of a URI with this address.
    pub fn text_of(address: &Address) -> String {
        let text = address.as_str();
        if !is_literal(address.scheme()) {
            return text.to_owned();
        }
        text.replace('%', "%25").replace('?', "%3F").replace('#', "%23")
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Uri {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Uri {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

/// Whether addresses with this scheme have keys or paths in which every character means itself.
fn is_literal(scheme: Scheme) -> bool {
    matches!(scheme, Scheme::S3 | Scheme::Gcs | Scheme::Claim | Scheme::File)
}

// === parsing ===

fn normalise(text: &str) -> Result<String, Problem> {
    if text.bytes().any(|b| b < b' ' || b == 0x7f) {
        return Err(Problem::ControlCharacter);
    }
    let (before, fragment) = match text.split_once('#') {
        Some((before, fragment)) => (before, Some(unescape(fragment)?)),
        None => (text, None),
    };
    let (scheme, rest) = split_scheme(before)?;
    let scheme = scheme.map(str::to_ascii_lowercase);
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };

    let mut out = String::with_capacity(text.len() + 8);
    if let Some(scheme) = &scheme {
        out.push_str(scheme);
        out.push(':');
    }
    if scheme.is_some() && !rest.starts_with('/') {
        // Opaque URIs stay unchanged.
        out.push_str(rest);
    } else {
        if scheme.is_none() && !rest.starts_with('/') {
            let segment = rest.split('/').next().unwrap_or_default();
            if segment.contains(':') {
                return Err(Problem::ColonInFirstSegment);
            }
        }
        let path = match rest.strip_prefix("//") {
            // As in `net/url`, without a scheme three slashes begin a path, not an empty authority.
            Some(after) if scheme.is_some() || !rest.starts_with("///") => {
                let end = after.find('/').unwrap_or(after.len());
                out.push_str("//");
                push_authority(&mut out, &after[..end])?;
                &after[end..]
            }
            _ => rest,
        };
        push_escaped(&mut out, &unescape(path)?, is_path_byte);
    }
    if let Some(query) = query {
        out.push('?');
        out.push_str(query);
    }
    if let Some(fragment) = fragment.filter(|f| !f.is_empty()) {
        out.push('#');
        push_escaped(&mut out, &fragment, is_fragment_byte);
    }
    Ok(out)
}

/// Splits off the scheme; a text without one is a path.
fn split_scheme(text: &str) -> Result<(Option<&str>, &str), Problem> {
    for (i, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if i > 0 => {}
            ':' if i == 0 => return Err(Problem::MissingScheme),
            ':' => return Ok((Some(&text[..i]), &text[i + 1..])),
            _ => break,
        }
    }
    Ok((None, text))
}

fn push_authority(out: &mut String, authority: &str) -> Result<(), Problem> {
    let host = match authority.rsplit_once('@') {
        Some((user, host)) => {
            // `validUserinfo` of `net/url`.
            let fine = |b: u8| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b);
            if !user.bytes().all(fine) {
                return Err(Problem::UserInfo);
            }
            out.push_str(user);
            out.push('@');
            host
        }
        None => authority,
    };
    let bracket = if host.starts_with('[') { host.rfind(']').ok_or(Problem::MissingBracket)? } else { 0 };
    let port = if bracket > 0 { &host[bracket + 1..] } else { host.rfind(':').map_or("", |i| &host[i..]) };
    let numeric = |p: &str| p.strip_prefix(':').is_some_and(|d| d.bytes().all(|b| b.is_ascii_digit()));
    if !port.is_empty() && !numeric(port) {
        return Err(Problem::Port(port.to_owned()));
    }
    // RFC 6874: `%25` begins the zone of an IPv6 address.
    let zone = host[..bracket].find("%25").map_or(bracket, |start| start + 3)..bracket;
    for (i, b) in host.bytes().enumerate() {
        if b == b'%' {
            // As in `net/url`, only these bytes may be encoded: `%`, what is not ASCII, and in a zone also spaces and what need not be
            // encoded.
            let code = host.get(i..i + 3).unwrap_or(&host[i..]);
            match u8::from_str_radix(code.get(1..).unwrap_or_default(), 16) {
                Ok(byte) if code.len() == 3 && (byte >= 0x80 || byte == b'%') => {}
                Ok(byte) if zone.contains(&i) && (byte == b' ' || is_host_byte(byte)) => {}
                _ => return Err(Problem::Escape(code.to_owned())),
            }
        } else if b < 0x80 && !is_host_byte(b) {
            return Err(Problem::HostCharacter(char::from(b).to_string()));
        }
    }
    push_escaped(out, &unescape(host)?, is_host_byte);
    Ok(())
}

fn unescape(text: &str) -> Result<Vec<u8>, Problem> {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if bytes[i] == b'%' {
            let digits = bytes.get(i + 1..i + 3).filter(|d| d.iter().all(u8::is_ascii_hexdigit));
            let byte = digits.and_then(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 16).ok());
            let Some(byte) = byte else {
                let end = (i + 3).min(bytes.len());
                return Err(Problem::Escape(String::from_utf8_lossy(&bytes[i..end]).into_owned()));
            };
            out.push(byte);
            i += 3;
        } else {
            out.push(bytes[i]);
            i += 1;
        }
    }
    Ok(out)
}

fn push_escaped(out: &mut String, bytes: &[u8], plain: impl Fn(u8) -> bool) {
    use fmt::Write;
    for &b in bytes {
        if plain(b) {
            out.push(char::from(b));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{b:02X}");
        }
    }
}

fn is_host_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&b)
}

fn is_path_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&b)
}

fn is_fragment_byte(b: u8) -> bool {
    is_path_byte(b) || b"?!()*".contains(&b)
}

#[cfg(test)]
mod tests {
    use super::{Address, Uri};

    fn printed(text: &str) -> String {
        Uri::parse(text).map_or_else(|error| format!("error: {error}"), |uri| uri.to_string())
    }

    #[test]
    fn uris_are_normalised_as_the_reference_prints_them() {
        let table = [
            ("", ""),
            ("hf://facebook/opt-125m", "hf://facebook/opt-125m"),
            ("HF://Org/Model", "hf://Org/Model"),
            ("hf:org/x", "hf:org/x"),
            ("s3://bucket/a%2Fb/c d?x=1&y=<2>#frag", "s3://bucket/a/b/c%20d?x=1&y=<2>#frag"),
            ("pvc://claim/sub/path#", "pvc://claim/sub/path"),
            ("oci://registry.example:5000/org/image:tag", "oci://registry.example:5000/org/image:tag"),
            ("oci+native://r/i@sha256:ab", "oci+native://r/i@sha256:ab"),
            ("no-scheme/path", "no-scheme/path"),
            ("hf://a/%e4%bd%a0", "hf://a/%E4%BD%A0"),
            ("http://[fe80::1%25en%30%20]:80/x", "http://[fe80::1%25en0%20]:80/x"),
            ("http://a%25b/x", "http://a%25b/x"),
        ];
        for (given, wanted) in table {
            assert_eq!(printed(given), wanted, "{given}");
        }
    }

    #[test]
    fn keys_and_paths_are_decoded_and_urls_are_not() {
        for (given, address) in [
            ("s3://bucket/sp ace", "s3://bucket/sp ace"),
            ("gs://bucket/ün%20ï", "gs://bucket/ün ï"),
            ("pvc://claim/my model", "pvc://claim/my model"),
            ("file:///models/100%25%23", "file:///models/100%#"),
            ("s3://bucket/%ff", "s3://bucket/%FF"),
            ("https://host/a b", "https://host/a%20b"),
        ] {
            assert_eq!(Uri::parse(given).unwrap().address().as_str(), address, "{given}");
        }
        let odd = Address::parse("file:///a?b/c#d%20e f");
        assert_eq!(Uri::parse(&Uri::text_of(&odd)).unwrap().address(), odd);
    }

    #[test]
    fn what_go_refuses_is_refused() {
        let table = [
            ("s3://bucket:path/x", r#"error: parse "s3://bucket:path/x": invalid port ":path" after host"#),
            ("hf://a/%zz", r#"error: parse "hf://a/%zz": invalid URL escape "%zz""#),
            ("a:b/c d", "a:b/c d"),
            ("http://[fe80::1%30]/", r#"error: parse "http://[fe80::1%30]/": invalid URL escape "%30""#),
            ("http://[::1%25%00]/", r#"error: parse "http://[::1%25%00]/": invalid URL escape "%00""#),
            ("1a:b", r#"error: parse "1a:b": first path segment in URL cannot contain colon"#),
            ("s3://my bucket/x", r#"error: parse "s3://my bucket/x": invalid character " " in host name"#),
            (":x", r#"error: parse ":x": missing protocol scheme"#),
        ];
        for (given, wanted) in table {
            assert_eq!(printed(given), wanted, "{given}");
        }
    }
}
