//! What the plugins decided: how often a pick would have been another one without each of them.

use longboat_scheduler::Decision;

use crate::{
    chart::number,
    comparison,
    difference::{Difference, difference},
    numbers::{float, ratio, rounded},
    report::{PluginShare, Report},
};

/// Scores this close are equal.
const EPSILON: f64 = 1e-9;
/// Differences of shares below this are noise of the sample.
const MIN_SHARE: f64 = 0.02;

#[derive(Debug)]
struct PluginCount {
    plugin: String,
    weight: Option<f64>,
    sum: f64,
    total: f64,
}

/// Counts over a sample of the decisions.
#[derive(Debug, Default)]
pub(crate) struct PluginCounts(Vec<PluginCount>);

// === impl PluginCounts ===

impl PluginCounts {
    /// Adds a decision that was made with traces.
    pub(crate) fn add(&mut self, decision: &Decision, candidates: usize) {
        let run = decision.primary_run();
        let mut before = candidates;
        for filter in &run.filtered {
            let dropped = before.saturating_sub(filter.kept.len());
            self.count(&filter.plugin, None, float(dropped as u64), float(before as u64));
            before = filter.kept.len();
        }
        if run.targets.is_empty() {
            return;
        }
        let totals: Vec<f64> = run.totals.iter().map(|(_, total)| *total).collect();
        for scorer in &run.trace {
            // Totals and scores have the order of the candidates that passed the filters.
            let rests = totals.iter().zip(&scorer.scores).map(|(total, (_, score))| {
                // As the scheduler counts it.
                let clamped = if score.is_nan() { 0.0 } else { score.clamp(0.0, 1.0) };
                total - clamped * scorer.weight
            });
            let sum = if run.ignores_scores { 0.0 } else { changed(&totals, &rests.collect::<Vec<_>>()) };
            self.count(&scorer.plugin, Some(scorer.weight), sum, 1.0);
        }
    }

    fn count(&mut self, plugin: &str, weight: Option<f64>, sum: f64, total: f64) {
        let known = self.0.iter().position(|count| count.plugin == plugin && count.weight == weight);
        let index = known.unwrap_or_else(|| {
            self.0.push(PluginCount { plugin: plugin.to_owned(), weight, sum: 0.0, total: 0.0 });
            self.0.len() - 1
        });
        self.0[index].sum += sum;
        self.0[index].total += total;
    }

    pub(crate) fn shares(&self) -> Vec<PluginShare> {
        let share = |count: &PluginCount| PluginShare {
            plugin: count.plugin.clone(),
            weight: count.weight,
            share: rounded(ratio(count.sum, count.total)),
        };
        self.0.iter().map(share).collect()
    }
}

/// Returns the probability that the best by `rests` is another one than the best by `totals`. Among equals, one is picked at random:
/// a scorer that leaves one of four equals decides three picks of four.
fn changed(totals: &[f64], rests: &[f64]) -> f64 {
    let are_best = |scores: &[f64]| -> Vec<bool> {
        let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        scores.iter().map(|score| *score >= best - EPSILON).collect()
    };
    let (with, without) = (are_best(totals), are_best(rests));
    let count = |are_best: &[bool]| are_best.iter().filter(|is_best| **is_best).count();
    let both = with.iter().zip(&without).filter(|(with, without)| **with && **without).count();
    1.0 - ratio(float(both as u64), float(count(&with).max(count(&without)) as u64))
}

/// Compares each run after the first one with the first one.
pub fn differences(reports: &[Report]) -> Vec<Difference> {
    let Some((first, others)) = reports.split_first() else { return Vec::new() };
    others.iter().filter_map(|other| difference(first, other)).collect()
}

/// Says in sentences what the plugins of each run did, and what the runs after the first one change.
pub fn advice(reports: &[Report], differences: &[Difference]) -> Vec<String> {
    let mut sentences = Vec::new();
    for report in reports {
        let decisive = report.plugins.iter().filter(|plugin| plugin.weight.is_some());
        if let Some(most) = decisive.max_by(|a, b| a.share.total_cmp(&b.share)) {
            sentences.push(if most.share < MIN_SHARE {
                format!(
                    "{}: no scorer decides alone; without any one of them nearly all picks stay",
                    report.policy
                )
            } else {
                format!(
                    "{}: `{}` decides most: without it, {:.0} % of the picks would be others",
                    report.policy,
                    most.plugin,
                    most.share * 100.0
                )
            });
        }
        for filter in
            report.plugins.iter().filter(|plugin| plugin.weight.is_none() && plugin.share >= MIN_SHARE)
        {
            sentences.push(format!(
                "{}: `{}` drops {:.0} % of the candidates",
                report.policy,
                filter.plugin,
                filter.share * 100.0
            ));
        }
    }
    let Some((first, others)) = reports.split_first() else { return sentences };
    for other in others {
        sentences.push(format!(
            "{} instead of {}: TTFT p50 {} → {} ms, hit ratio {:+.1} points",
            other.policy,
            first.policy,
            number(first.ttft.p50),
            number(other.ttft.p50),
            (other.hit_ratio - first.hit_ratio) * 100.0
        ));
        let own = differences
            .iter()
            .filter(|difference| difference.first == first.policy && difference.other == other.policy);
        sentences.extend(own.flat_map(comparison::sentences));
    }
    sentences
}

/// Says what limits a run: where the requests that missed the SLO spent the time to their first token.
pub fn limit(report: &Report) -> &'static str {
    let refused = report.rejections.by_reason().into_iter().max_by_key(|(count, ..)| *count);
    if let Some((.., cause)) = refused.filter(|(count, ..)| *count * 20 > report.requests) {
        return cause;
    }
    let waits = if report.waits_of_misses.prefill > 0.0 { report.waits_of_misses } else { report.waits };
    let parts = [
        (waits.picker_queue, "requests wait in the picker's queue, because the pool is saturated"),
        (waits.batch, "requests wait for a place in the batch (--max-num-seqs)"),
        (waits.kv_cache, "requests wait for blocks of the KV cache"),
        (
            waits.prefill,
            "the computation of prompts takes the time; a better hit ratio helps, further replicas hardly",
        ),
    ];
    parts.into_iter().max_by(|(a, _), (b, _)| a.total_cmp(b)).map_or("", |(_, reason)| reason)
}

#[cfg(test)]
mod tests {
    use super::changed;

    #[test]
    fn a_scorer_decides_what_would_be_picked_at_random_without_it() {
        // One of four has the prefix; without the scorer, all are equal.
        assert_eq!(changed(&[1.0, 0.0, 0.0, 0.0], &[0.0; 4]).to_bits(), 0.75f64.to_bits());
        assert_eq!(changed(&[1.0; 4], &[0.0; 4]).to_bits(), 0f64.to_bits());
        assert_eq!(changed(&[2.0, 1.0], &[0.0, 1.0]).to_bits(), 1f64.to_bits());
        assert_eq!(changed(&[2.0, 1.0], &[1.0, 0.0]).to_bits(), 0f64.to_bits());
    }
}
