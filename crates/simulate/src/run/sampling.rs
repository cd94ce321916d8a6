//! What is kept of a decision about a request of the sample.

use std::collections::HashSet;

use longboat_engine_model::BlockHash;
use longboat_scheduler::Decision;

use super::World;
use crate::sample::{SampledPick, SampledScorer};

/// The profile that chooses the endpoint for the prompt, if another one decodes.
const PREFILL_PROFILE: &str = "prefill";

impl World<'_> {
    /// Describes a decision that sends a prompt with these blocks to an endpoint. It must have been made with traces.
    pub(super) fn sampled_pick(
        &self,
        decision: &Decision,
        endpoint: usize,
        hashes: &[BlockHash],
    ) -> SampledPick {
        let place = self.places[endpoint];
        let of_prompt =
            |name: &str, targets: &[usize]| name == PREFILL_PROFILE && targets.first().copied() == place;
        let prefill = decision.runs.iter().find(|run| of_prompt(&run.name, &run.targets));
        let run = prefill.unwrap_or_else(|| decision.primary_run());
        let member = |place: &usize| self.numbers[*place];

        let mut passed: Vec<usize> = (0..self.candidates.len()).collect();
        let mut dropped = Vec::new();
        for (index, filter) in run.filtered.iter().enumerate() {
            let kept: HashSet<usize> = filter.kept.iter().copied().collect();
            dropped.extend(
                passed.iter().filter(|place| !kept.contains(place)).map(|place| (member(place), index)),
            );
            passed.retain(|place| kept.contains(place));
        }
        #[expect(clippy::cast_possible_truncation, reason = "two digits of a score are printed")]
        let short = |score: f64| if score.is_nan() { 0.0 } else { score as f32 };
        let scorers = run.trace.iter().map(|scorer| SampledScorer {
            plugin: scorer.plugin.clone(),
            weight: scorer.weight,
            scores: scorer.scores.iter().map(|(_, score)| short(score.clamp(0.0, 1.0))).collect(),
        });

        let cached = |number: usize| {
            let engine = &self.members[number].engine;
            engine.cached_blocks(hashes) * engine.parameters().block_size
        };
        let cached_tokens = cached(endpoint);
        // Other groups compute another part of the request, so the prompt could not have gone there.
        let group = self.members[endpoint].group;
        let others = self.numbers.iter().copied().filter(|number| self.members[*number].group == group);
        let mut holder = (endpoint, cached_tokens);
        for (number, tokens) in others.map(|number| (number, cached(number))) {
            if tokens > holder.1 {
                holder = (number, tokens);
            }
        }
        SampledPick {
            endpoint,
            cached_tokens,
            holder: Some(holder).filter(|(_, tokens)| *tokens > 0),
            scored: run.totals.iter().map(|(place, _)| member(place)).collect(),
            totals: run.totals.iter().map(|(_, total)| short(*total)).collect(),
            scorers: scorers.collect(),
            dropped,
            filters: run.filtered.iter().map(|filter| filter.plugin.clone()).collect(),
        }
    }
}
