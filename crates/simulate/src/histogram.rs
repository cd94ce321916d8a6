//! Quantiles of a stream, with memory that does not grow.

use crate::numbers::float;

/// Buckets for each doubling of the value.
const SUB_BUCKETS: u64 = 64;
/// `SUB_BUCKETS` is two to this power.
const SUB_BITS: u32 = SUB_BUCKETS.trailing_zeros();

/// The greatest error of a quantile, relative to its value: half of the width of a bucket.
#[expect(clippy::cast_precision_loss, reason = "a small power of two")]
pub const RELATIVE_ERROR: f64 = 0.5 / SUB_BUCKETS as f64;

/// A histogram of values. Small values have buckets of their own; larger ones have 64 buckets for each doubling.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: f64,
}

// === impl Histogram ===

impl Histogram {
    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        let bucket = bucket(value);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.count += 1;
        self.sum += float(value);
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, added)| *count += added);
        self.count += other.count;
        self.sum += other.sum;
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean of the values. 0 without values.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / float(self.count) }
    }

    /// Returns the value below which this share of the values is, with [`RELATIVE_ERROR`]. 0 without values.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank")]
    pub fn quantile(&self, share: f64) -> f64 {
        // A rank of 0 would be reached by the first bucket, empty or not.
        let rank = ((float(self.count) * share).ceil() as u64).max(1);
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                let (low, high) = bounds(bucket as u64);
                return f64::midpoint(float(low), float(high));
            }
        }
        0.0
    }

    /// Returns the upper bound of each bucket in use and the share of the values up to it.
    pub fn cumulative(&self) -> Vec<(f64, f64)> {
        let mut below = 0;
        let used = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        used.map(|(bucket, count)| {
            below += count;
            (float(bounds(bucket as u64).1), float(below) / float(self.count))
        })
        .collect()
    }
}

fn bucket(value: u64) -> usize {
    if value < SUB_BUCKETS {
        return usize::try_from(value).unwrap_or_default();
    }
    let exponent = u64::from(value.ilog2() - SUB_BITS);
    let mantissa = (value >> exponent) - SUB_BUCKETS;
    usize::try_from((exponent + 1) * SUB_BUCKETS + mantissa).unwrap_or_default()
}

/// The lowest and the highest value of a bucket.
fn bounds(bucket: u64) -> (u64, u64) {
    if bucket < SUB_BUCKETS {
        return (bucket, bucket);
    }
    let (exponent, mantissa) = (bucket / SUB_BUCKETS - 1, bucket % SUB_BUCKETS);
    let low = (SUB_BUCKETS + mantissa) << exponent;
    (low, low + ((1 << exponent) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_the_bound() {
        let mut histogram = Histogram::default();
        for value in 1..=100_000 {
            histogram.add(value * 37);
        }
        for share in [0.01, 0.5, 0.9, 0.99, 1.0] {
            let exact = share * 100_000.0 * 37.0;
            let error = (histogram.quantile(share) - exact).abs() / exact;
            assert!(error <= RELATIVE_ERROR + 1e-4, "{share}: {error}");
        }
        assert!(histogram.counts.len() < 2000);
    }

    #[test]
    fn buckets_cover_every_value_once() {
        for value in (0..5000).chain([u64::MAX / 3, u64::MAX]) {
            let (low, high) = bounds(bucket(value) as u64);
            assert!(low <= value && value <= high, "{value}: {low}..{high}");
        }
    }

    #[test]
    fn an_empty_histogram_has_no_quantiles() {
        assert_eq!((Histogram::default().quantile(0.5), Histogram::default().mean()), (0.0, 0.0));
    }
}
