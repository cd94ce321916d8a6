//! Durations as Go writes them, `50ms` or `1m30s`: flags and settings of the reference have them.

use std::time::Duration;

/// Reads a duration that is not negative; a bare `0` needs no unit.
///
/// # Errors
/// A sentence for the user, where the text is no duration.
pub fn parse(text: &str) -> Result<Duration, String> {
    let invalid = || format!("{text:?} is not a duration such as 50ms or 1m30s");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest
            .find(|character: char| !character.is_ascii_digit() && character != '.')
            .ok_or_else(invalid)?;
        let number: f64 = rest[..digits].parse().map_err(|_| invalid())?;
        rest = &rest[digits..];
        let (unit, seconds) =
            [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)]
                .into_iter()
                .find(|(unit, _)| rest.starts_with(unit))
                .ok_or_else(invalid)?;
        rest = &rest[unit.len()..];
        let part = Duration::try_from_secs_f64(number * seconds).map_err(|_| invalid())?;
        total = total.checked_add(part).ok_or_else(invalid)?;
    }
    if text.is_empty() { Err(invalid()) } else { Ok(total) }
}

/// Writes a duration as Go does: `1m30s`, `1.5s`, `50ms`.
pub fn text(duration: Duration) -> String {
    let (seconds, rest) = (duration.as_secs(), duration.subsec_nanos());
    if seconds < 60 {
        // Below a minute, both languages write the same.
        return if duration.is_zero() { "0s".to_owned() } else { format!("{duration:?}") };
    }
    let (hours, minutes) = (seconds / 3600, seconds % 3600 / 60);
    let last = Duration::new(seconds % 60, rest);
    let last = if last.as_secs() == 0 { last.as_secs_f64().to_string() + "s" } else { format!("{last:?}") };
    if hours > 0 { format!("{hours}h{minutes}m{last}") } else { format!("{minutes}m{last}") }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{parse, text};

    #[test]
    fn durations_are_written_as_go_writes_them_and_can_be_read_again() {
        for (duration, expected) in [
            (Duration::ZERO, "0s"),
            (Duration::from_millis(50), "50ms"),
            (Duration::from_micros(2), "2µs"),
            (Duration::from_millis(1500), "1.5s"),
            (Duration::from_mins(1), "1m0s"),
            (Duration::from_secs(90), "1m30s"),
            (Duration::from_millis(60_500), "1m0.5s"),
            (Duration::from_hours(1), "1h0m0s"),
            (Duration::from_secs(36_061), "10h1m1s"),
        ] {
            assert_eq!(text(duration), expected);
            assert_eq!(parse(expected), Ok(duration));
        }
    }

    #[test]
    fn numbers_with_units_add_up_and_anything_else_is_refused() {
        for (text, expected) in [
            ("200ms", Duration::from_millis(200)),
            ("1.5s", Duration::from_millis(1500)),
            ("1m30s", Duration::from_secs(90)),
            ("2h", Duration::from_hours(2)),
            ("50us", Duration::from_micros(50)),
            ("50µs", Duration::from_micros(50)),
            ("0", Duration::ZERO),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        for text in ["", "fast", "-1s", "1", "s", "1d", "1..s", "1s ", "99999999999999999999h"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
