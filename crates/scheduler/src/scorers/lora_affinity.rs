//! `lora-affinity-scorer`: prefers endpoints that have the adapter loaded, then those with room for it.

use crate::{endpoint::LoraAdapters, prelude::*};

pub(crate) struct LoraAffinity;

impl Scorer for LoraAffinity {
    fn score(&self, context: &Context<'_>, candidates: &[Candidate], scores: &mut [f64]) {
        for (score, &candidate) in scores.iter_mut().zip(candidates) {
            *score = context
                .metrics(candidate)
                .lora
                .as_ref()
                .map_or(0.0, |lora| affinity(lora, context.request.model));
        }
    }
}

fn affinity(lora: &LoraAdapters, model: &str) -> f64 {
    if lora.active.iter().any(|adapter| adapter == model) {
        1.0
    } else if lora.active.len() + lora.waiting.len() < lora.max as usize {
        0.8
    } else if lora.waiting.iter().any(|adapter| adapter == model) {
        0.6
    } else {
        0.0
    }
}
