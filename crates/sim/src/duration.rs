//! Durations in the form of the reference's simulator.

use std::time::Duration;

/// Parses Go's duration strings (`200ms`, `1.5s`, `1m30s`, `50us`). A bare number counts milliseconds, as in older releases
/// of the reference.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration; expected for instance `200ms`, `1.5s` or `50us`");
    if let Ok(milliseconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(milliseconds / 1000.0).map_err(|_| wrong());
    }
    longboat_quantity::duration::parse(text).map_err(|_| wrong())
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
        for text in ["fast", "-1s", ""] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
