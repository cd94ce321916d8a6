//! Numbers of reports.

#[expect(clippy::cast_precision_loss, reason = "counts and times of years are below 2^53")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Rounds to what is worth printing, so that results compare as text.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}
