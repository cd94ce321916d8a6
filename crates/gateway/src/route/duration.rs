//! Gateway API durations (GEP-2257): up to four pairs of a number and a unit, such as `1h30m`, `500ms`, `0s`.

use std::time::Duration;

/// Parses a duration. Returns `None` if the text is invalid.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let value: u32 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "h" => Duration::from_hours(1),
            "m" => Duration::from_mins(1),
            "s" => Duration::from_secs(1),
            "ms" => Duration::from_millis(1),
            _ => return None,
        };
        rest = &rest[end..];
        total += unit * value;
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_add_up_and_anything_else_is_refused() {
        assert_eq!(parse("1h2m3s4ms"), Some(Duration::from_millis(3_723_004)));
        assert_eq!(parse("0s"), Some(Duration::ZERO));
        for text in ["", "1", "1.5s", "-1s", "s", "1d"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
