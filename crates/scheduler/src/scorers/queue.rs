//! `queue-scorer` and `running-requests-size-scorer`: prefer endpoints with fewer requests, relative to the other candidates.

use crate::{endpoint::Metrics, prelude::*};

pub(crate) struct Relative(pub(crate) fn(&Metrics) -> f64);

impl Scorer for Relative {
    fn score(&self, context: &Context<'_>, candidates: &[Candidate], scores: &mut [f64]) {
        for (score, candidate) in scores.iter_mut().zip(candidates) {
            *score = (self.0)(context.metrics(*candidate));
        }
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let least = scores.iter().copied().fold(f64::INFINITY, f64::min);
        for score in scores {
            *score = if most > least { (most - *score) / (most - least) } else { 1.0 };
        }
    }
}
