//! Go's durations: `50ms`, `1m30s`.

use std::time::Duration;

/// Reads a duration; a bare `0` needs no unit.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
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
