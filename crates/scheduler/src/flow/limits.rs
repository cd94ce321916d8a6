//! Usage limits: the saturation from which on each priority is no longer dispatched.

use crate::numbers::float;

/// A usage limit policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum UsageLimit {
    /// All priorities have the same ceiling.
    Static {
        /// The ceiling.
        threshold: f64,
    },
    /// Lower priorities stop at a lower saturation, so that room is left for higher priorities.
    Holdback {
        /// The ceiling of the lowest priority.
        min: f64,
        /// The ceiling of the highest priority.
        max: f64,
        /// Whether ceilings depend on the distance between priorities, and not only on their order.
        by_value: bool,
    },
    /// Lower priorities are dispatched less often as the saturation grows.
    SoftReflective,
}

impl UsageLimit {
    /// Returns the ceiling of the band at index `band` of `priorities`, which are in descending order. `tick` counts dispatch
    /// cycles.
    pub(crate) fn ceiling(self, saturation: f64, priorities: &[i32], band: usize, tick: u64) -> f64 {
        match self {
            Self::Static { threshold } => threshold,
            // A single band has nobody to leave room for.
            Self::Holdback { max, .. } if priorities.len() < 2 => max,
            Self::Holdback { min, max, by_value: false } => max - share(band, priorities.len()) * (max - min),
            Self::Holdback { min, max, by_value: true } => {
                let value = |index: usize| f64::from(priorities[index]);
                // They differ: there is one band for each priority.
                let (highest, lowest) = (value(0), value(priorities.len() - 1));
                min + (value(band) - lowest) / (highest - lowest) * (max - min)
            }
            Self::SoftReflective if band == 0 => 1.0,
            Self::SoftReflective if saturation >= 1.0 => 0.0,
            Self::SoftReflective => {
                if saturation < 1.0 - share(band, priorities.len()) * saturation {
                    return 1.0;
                }
                // One cycle of `every` dispatches the band: each one at a saturation of 0.5, one of 9 at 0.9.
                let every = (saturation / (1.0 - saturation)).round().max(1.0);
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "at least 1; a huge value saturates"
                )]
                let every = every as u64;
                if tick.is_multiple_of(every) { 1.0 } else { 0.0 }
            }
        }
    }
}

/// Returns the relative position of band `index` among `count` bands: 0 for the highest, 1 for the lowest.
fn share(index: usize, count: usize) -> f64 {
    float(index as u64) / float(count.max(2) as u64 - 1)
}
