//! Timestamps in the formats of Kubernetes.

use jiff::{Timestamp, civil::DateTime};
use serde_json::Value;

/// A time in whole seconds.
pub fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time with six digits of fraction.
pub fn micros(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Parses a time as Go does with the layout of RFC 3339, which is stricter than jiff: the letters are upper case, and seconds
/// and an offset are required. A time in the last hours of the year 9999, which jiff does not have, becomes the latest that it has.
pub fn parse(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let is = |pattern: &[u8], bytes: &[u8]| {
        pattern.len() == bytes.len()
            && pattern.iter().zip(bytes).all(|(p, b)| if *p == b'0' { b.is_ascii_digit() } else { p == b })
    };
    let (date, rest) = bytes.split_at_checked(19)?;
    let fraction = match rest.split_first() {
        Some((b'.' | b',', digits)) => 1 + digits.iter().take_while(|b| b.is_ascii_digit()).count(),
        _ => 0,
    };
    let zone = &rest[fraction..];
    let fits = is(b"0000-00-00T00:00:00", date)
        && date[17] != b'6'
        && fraction != 1
        && [&b"Z"[..], b"+00:00", b"-00:00"].iter().any(|pattern| is(pattern, zone));
    let is_latest = || text[..19].parse::<DateTime>().is_ok_and(|date| date.year() == 9999);
    if !fits {
        return None;
    }
    text.parse().ok().or_else(|| is_latest().then_some(Timestamp::MAX))
}

/// Writes a time of a request as Go does: in UTC, with the digits of `write`. Leaves other values as they are.
pub fn normalise(value: &mut Value, write: fn(Timestamp) -> String) {
    if let Some(time) = value.as_str().and_then(parse).filter(|time| *time < Timestamp::MAX) {
        *value = Value::from(write(time));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_as_strictly_as_in_go_and_written_in_utc() {
        for (text, expected) in [
            ("2020-01-01T01:00:00+01:00", "2020-01-01T00:00:00Z"),
            ("2020-01-01T00:00:00.5Z", "2020-01-01T00:00:00Z"),
            ("2020-01-01T00:00:00.999999999-00:30", "2020-01-01T00:30:00Z"),
            ("2020-01-01t00:00:00z", "2020-01-01t00:00:00z"),
            ("2020-01-01 00:00:00Z", "2020-01-01 00:00:00Z"),
            ("2020-01-01T00:00Z", "2020-01-01T00:00Z"),
            ("2020-01-01T00:00:00", "2020-01-01T00:00:00"),
            ("2020-01-01T00:00:00.Z", "2020-01-01T00:00:00.Z"),
            ("2020-01-01T00:00:60Z", "2020-01-01T00:00:60Z"),
            ("2020-13-01T00:00:00Z", "2020-13-01T00:00:00Z"),
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
            ("", ""),
        ] {
            let mut value = Value::from(text);
            normalise(&mut value, seconds);
            assert_eq!(value, expected);
        }
        let mut value = Value::from("2020-01-01T01:00:00.123456+01:00");
        normalise(&mut value, micros);
        assert_eq!(value, "2020-01-01T00:00:00.123456Z");
        assert_eq!(parse("9999-12-31T23:59:59.9Z"), Some(Timestamp::MAX));
        assert_eq!(parse("9999-02-30T00:00:00Z"), None);
    }
}
