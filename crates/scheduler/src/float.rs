//! Counts as floats.

/// Converts a count of requests, tokens, bytes, milliseconds or endpoints, which is far below 2^52.
#[expect(clippy::cast_precision_loss, reason = "a count is far below 2^52")]
pub fn float(count: u64) -> f64 {
    count as f64
}
