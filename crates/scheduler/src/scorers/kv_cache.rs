//! `kv-cache-utilization-scorer`: scores by the free share of the KV cache.

use crate::prelude::*;

pub(crate) struct KvCache;

impl Scorer for KvCache {
    fn score(&self, context: &Context<'_>, candidates: &[Candidate], scores: &mut [f64]) {
        for (score, &candidate) in scores.iter_mut().zip(candidates) {
            *score = 1.0 - context.metrics(candidate).kv_usage;
        }
    }
}
