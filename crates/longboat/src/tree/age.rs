//! Formats durations for people.

use std::time::Duration;

/// Formats a duration as `8s`, `2m5s`, `3h10m`, `4d2h`: at most two units, the second one only where it matters.
pub(crate) fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |first: u64, unit: &str, second: u64, below: &str| match second {
        0 => format!("{first}{unit}"),
        second => format!("{first}{unit}{second}{below}"),
    };
    match seconds {
        0..60 => format!("{seconds}s"),
        60..600 => two(minutes, "m", seconds % 60, "s"),
        600..3600 => format!("{minutes}m"),
        3600..86400 => two(hours, "h", minutes % 60, "m"),
        _ => two(days, "d", hours % 24, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_two_units_at_most() {
        for (seconds, expected) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (125, "2m5s"),
            (700, "11m"),
            (3600, "1h"),
            (11_400, "3h10m"),
            (352_800, "4d2h"),
        ] {
            assert_eq!(age(Duration::from_secs(seconds)), expected);
        }
    }
}
