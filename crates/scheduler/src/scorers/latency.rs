//! `latency-scorer`: prefers endpoints that are predicted to meet the times that a request asks for.

use crate::{latency::LatencyHeadroom, numbers::Range, prelude::*, producers::predicted_latency};

parameters! {
    struct RawParameters {
        ttft_weight: f64 = 0.8,
        tpot_weight: f64 = 0.2,
        headroom_selection_strategy: Strategy = Strategy::Least,
        #[serde(rename = "compositeKVWeight")]
        composite_kv_weight: f64 = 1.0,
        composite_queue_weight: f64 = 1.0,
        composite_prefix_weight: f64 = 1.0,
        latency_prediction_info_producer_name: Option<String>,
        prefix_match_info_producer_name: Option<String>,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Strategy {
    /// Prefers endpoints that just meet the requested times. The faster ones stay free for urgent requests.
    #[default]
    Least,
    /// Prefers the fastest endpoints.
    Most,
}

struct Latency {
    raw: RawParameters,
    prefix: usize,
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    for (field, weight) in [
        ("ttftWeight", raw.ttft_weight),
        ("tpotWeight", raw.tpot_weight),
        ("compositeKVWeight", raw.composite_kv_weight),
        ("compositeQueueWeight", raw.composite_queue_weight),
        ("compositePrefixWeight", raw.composite_prefix_weight),
    ] {
        parameters.zero_or_more(field, weight)?;
    }
    predicted_latency::require(builder, parameters, raw.latency_prediction_info_producer_name.as_deref())?;
    let prefix = builder.prefix(parameters, raw.prefix_match_info_producer_name.as_deref())?;
    Ok(Plugin::scorer(Latency { raw, prefix }))
}

/// A smaller difference counts as none.
const NONE: f64 = 1e-9;

/// A candidate's place in the list, and its headroom.
#[derive(Debug, Clone, Copy)]
struct Headroom {
    place: usize,
    ttft: f64,
    tpot: f64,
}

impl Scorer for Latency {
    fn score(&self, context: &Context<'_>, candidates: &[Candidate], scores: &mut [f64]) {
        let headrooms: Vec<_> =
            candidates.iter().map(|&candidate| context.latency_headroom(candidate)).collect();
        if headrooms.iter().all(Option::is_none) {
            return self.without_predictions(context, candidates, scores);
        }
        let left = |place: usize, headroom: Option<&LatencyHeadroom>| Headroom {
            place,
            ttft: headroom.map_or(0.0, |headroom| headroom.ttft_headroom),
            tpot: headroom.map_or(0.0, |headroom| headroom.tpot_headroom),
        };
        let all: Vec<Headroom> =
            headrooms.iter().enumerate().map(|(place, headroom)| left(place, *headroom)).collect();
        let late = |left: &&Headroom| left.ttft < 0.0 || left.tpot < 0.0;
        let (too_slow, in_time): (Vec<Headroom>, Vec<Headroom>) = all.iter().partition(late);
        if !in_time.is_empty() {
            return self.rank(&in_time, self.raw.headroom_selection_strategy, scores);
        }
        // All endpoints are too slow. Idle ones are preferred, then those that meet at least one of the two times.
        let idle = |left: &&Headroom| headrooms[left.place].is_some_and(|headroom| headroom.dispatched == 0);
        let groups: [Vec<Headroom>; 4] = [
            too_slow.iter().filter(idle).copied().collect(),
            too_slow.iter().filter(|left| left.ttft >= 0.0).copied().collect(),
            too_slow.iter().filter(|left| left.tpot >= 0.0).copied().collect(),
            too_slow,
        ];
        if let Some(group) = groups.iter().find(|group| !group.is_empty()) {
            self.rank(group, Strategy::Least, scores);
        }
    }
}

impl Latency {
    /// Scores by the distance from the requested times, in hundredths. A time that is equal for all candidates does not count.
    fn rank(&self, group: &[Headroom], strategy: Strategy, scores: &mut [f64]) {
        let ttft = Range::of(group.iter().map(|left| left.ttft.abs()));
        let tpot = Range::of(group.iter().map(|left| left.tpot.abs()));
        let sum = self.raw.ttft_weight + self.raw.tpot_weight;
        let (mut first, mut further) =
            if sum > 0.0 { (self.raw.ttft_weight / sum, self.raw.tpot_weight / sum) } else { (1.0, 0.0) };
        match (is_narrow(ttft), is_narrow(tpot)) {
            (true, false) => (first, further) = (0.0, 1.0),
            (false, true) => (first, further) = (1.0, 0.0),
            _ => {}
        }
        for left in group {
            let distance =
                first * position(ttft, left.ttft.abs()) + further * position(tpot, left.tpot.abs());
            let share = if strategy == Strategy::Most { distance } else { 1.0 - distance };
            // These are llm-d's weights from 1 to 101. The worst of the group has more than the endpoints outside of it, which have 0.
            scores[left.place] = ((share * 100.0).trunc() + 1.0) / 100.0;
        }
    }

    /// Computes scores while there are no predictions.
    fn without_predictions(&self, context: &Context<'_>, candidates: &[Candidate], scores: &mut [f64]) {
        let weights =
            [self.raw.composite_kv_weight, self.raw.composite_queue_weight, self.raw.composite_prefix_weight];
        let sum: f64 = weights.iter().sum();
        let [cache, queue, prefix] =
            if sum > 0.0 { weights.map(|weight| weight / sum) } else { [1.0, 0.0, 0.0] };
        let waiting = |candidate: Candidate| context.metrics(candidate).waiting;
        let longest = candidates.iter().map(|&candidate| waiting(candidate)).fold(0.0, f64::max);
        for (score, &candidate) in scores.iter_mut().zip(candidates) {
            let short = if longest > 0.0 { (longest - waiting(candidate)) / longest } else { 1.0 };
            let held = context.prefix(self.prefix).ratio(candidate);
            let total = cache * (1.0 - context.metrics(candidate).kv_usage) + queue * short + prefix * held;
            *score = (total * 100.0).round() / 100.0;
        }
    }
}

/// Whether all numbers are about equal.
fn is_narrow(range: Range) -> bool {
    range.width() <= NONE
}

/// Returns the position of a number in a range, from 0 to 1.
fn position(range: Range, number: f64) -> f64 {
    if is_narrow(range) { 0.5 } else { range.position(number) }
}
