//! Counts as floats, ranges of floats, and durations as counts of milliseconds.

use std::time::Duration;

use serde::Deserialize;

/// Converts a count of requests, tokens, bytes, milliseconds or endpoints, which is far below 2^52.
#[expect(clippy::cast_precision_loss, reason = "a count is far below 2^52")]
pub fn float(count: u64) -> f64 {
    count as f64
}

/// The whole milliseconds of a duration.
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The smallest and the largest of some numbers.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Range {
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Range {
    pub(crate) fn of(numbers: impl Iterator<Item = f64>) -> Self {
        numbers.fold(Self { min: f64::INFINITY, max: f64::NEG_INFINITY }, |range, number| Self {
            min: range.min.min(number),
            max: range.max.max(number),
        })
    }

    pub(crate) fn width(self) -> f64 {
        self.max - self.min
    }

    /// The position of a number: 0 for the smallest and 1 for the largest. The range must have a width.
    pub(crate) fn position(self, number: f64) -> f64 {
        (number - self.min) / self.width()
    }
}
