//! String formats that the reference checks.

use std::{net::IpAddr, sync::LazyLock};

use base64::{Engine, prelude::BASE64_STANDARD};
use regex::Regex;

use super::patterns;

/// The formats that the reference checks. It removes all others from a schema.
const KNOWN: [&str; 25] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "date-time",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Whether the reference checks `format`.
pub(crate) fn known(format: &str) -> bool {
    KNOWN.contains(&format)
}

/// Whether `text` has the format. Unknown formats accept everything.
pub(crate) fn matches(format: &str, text: &str) -> bool {
    match format {
        // The pattern begins with ten ASCII characters, so a character ends where the text is cut.
        "date-time" | "datetime" => DATE_TIME.is_match(text) && date(&text[..10]),
        "date" => date(text),
        "byte" => BASE64_STANDARD.decode(text).is_ok(),
        "duration" => duration(text),
        "ipv4" => matches!(text.parse(), Ok(IpAddr::V4(_))),
        "ipv6" => matches!(text.parse(), Ok(IpAddr::V6(_))),
        "cidr" => cidr(text),
        "mac" => MAC.is_match(text),
        "hostname" => text.len() <= 253 && HOSTNAME.is_match(text),
        "email" => EMAIL.is_match(text),
        "uri" => text.starts_with('/') || url::Url::parse(text).is_ok(),
        "uuid" => UUID.is_match(text),
        "uuid3" => UUID.is_match(text) && version(text) == Some('3'),
        "uuid4" => UUID.is_match(text) && version(text) == Some('4'),
        "uuid5" => UUID.is_match(text) && version(text) == Some('5'),
        "hexcolor" => HEX_COLOR.is_match(text),
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        _ => true,
    }
}

macro_rules! regexes {
    ($($name:ident = $pattern:literal;)+) => {
        $(static $name: LazyLock<Regex> =
            LazyLock::new(|| patterns::compile($pattern).expect("the pattern is a literal that tests compile"));)+
    };
}

regexes! {
    DATE_TIME = r"^\d{4}-\d{2}-\d{2}[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([Zz]|[+-]\d{2}:?\d{2})$";
    MAC = r"^([0-9A-Fa-f]{2}[:-]){5}([0-9A-Fa-f]{2}[:-]?){1,15}$|^([0-9A-Fa-f]{4}\.){2,9}[0-9A-Fa-f]{4}$";
    HOSTNAME = r"^([a-zA-Z0-9\p{L}]([a-zA-Z0-9\p{L}-]{0,61}[a-zA-Z0-9\p{L}])?)(\.[a-zA-Z0-9\p{L}]([a-zA-Z0-9\p{L}-]{0,61}[a-zA-Z0-9\p{L}])?)*\.?$";
    EMAIL = r"^[^@\s]+@[^@\s]+$";
    UUID = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    HEX_COLOR = r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";
    GO_DURATION = r"^[+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))*$|^[+-]?0$";
    WORD_DURATION = r"(?i)^\d+\s*(ns|nanos?|nanoseconds?|us|µs|micros?|microseconds?|ms|millis?|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|wks?|weeks?)$";
}

fn date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

fn duration(text: &str) -> bool {
    GO_DURATION.is_match(text) || WORD_DURATION.is_match(text)
}

fn cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let Ok(bits) = bits.parse::<u8>() else { return false };
    match address.parse() {
        Ok(IpAddr::V4(_)) => bits <= 32,
        Ok(IpAddr::V6(_)) => bits <= 128,
        Err(_) => false,
    }
}

fn version(uuid: &str) -> Option<char> {
    uuid.chars().filter(|c| *c != '-').nth(12)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn digits_of_other_scripts_are_no_digits() {
        assert!(matches("date-time", "2026-11-30T22:10:00Z"));
        for (format, text) in [
            ("date-time", "\u{660}\u{660}\u{660}\u{660}-\u{660}1-01T00:00:00Z"),
            ("date-time", "2026-1\u{661}-30T22:10:00Z"),
            ("duration", "\u{665}s"),
        ] {
            assert!(!matches(format, text), "{format} {text}");
        }
    }
}
