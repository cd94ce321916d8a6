//! `prefix-cache-affinity-filter`: keeps the endpoints that hold most of the prompt, unless they are much busier.

use crate::{prelude::*, producers::predicted_latency};

parameters! {
    struct RawParameters {
        affinity_threshold: f64 = 0.8,
        exploration_probability: f64,
        #[serde(rename = "maxTTFTPenaltyMs")]
        max_ttft_penalty_ms: f64 = 18_000.0,
        ttft_source: TtftSource,
        peak_prefill_throughput: f64 = 15_928.0,
        prefix_match_info_producer_name: Option<String>,
        in_flight_load_producer_name: Option<String>,
        latency_prediction_info_producer_name: Option<String>,
    }
}

/// The source of the time to the first token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum TtftSource {
    /// Computed from the prompt tokens in flight, at full prefill speed.
    #[default]
    PrefillThroughput,
    /// The latency predictor.
    LatencyPredictor,
}

struct PrefixAffinity {
    raw: RawParameters,
    prefix: usize,
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    let threshold = raw.affinity_threshold;
    parameters.require(
        threshold <= 1.0,
        "affinityThreshold",
        format!("expected at most 1, found {threshold}"),
    )?;
    parameters.share("explorationProbability", raw.exploration_probability)?;
    parameters.zero_or_more("maxTTFTPenaltyMs", raw.max_ttft_penalty_ms)?;
    let has_gate = raw.max_ttft_penalty_ms > 0.0;
    if has_gate && raw.ttft_source == TtftSource::PrefillThroughput {
        parameters.above_zero("peakPrefillThroughput", raw.peak_prefill_throughput)?;
    }
    let prefix = builder.prefix(parameters, raw.prefix_match_info_producer_name.as_deref())?;
    builder.load_producer(parameters, raw.in_flight_load_producer_name.as_deref())?;
    let predictor = raw.latency_prediction_info_producer_name.as_deref();
    if has_gate && raw.ttft_source == TtftSource::LatencyPredictor {
        predicted_latency::require(builder, parameters, predictor)?;
    } else if predictor.is_some_and(|name| !name.is_empty()) {
        let why = "no effect: latencyPredictionInfoProducerName needs ttftSource: latencyPredictor";
        builder.warnings.push((parameters.name.to_owned(), why.to_owned()));
    }
    Ok(Plugin::filter(PrefixAffinity { raw, prefix }))
}

impl PrefixAffinity {
    /// Returns the time to the first token, either predicted or computed from the prompt tokens in flight. An endpoint
    /// without a prediction counts as slower than any other.
    fn ttft_ms(&self, context: &Context<'_>, candidate: Candidate) -> f64 {
        if self.raw.ttft_source == TtftSource::LatencyPredictor {
            return context.latency_headroom(candidate).map_or(f64::INFINITY, |headroom| headroom.ttft_ms);
        }
        let slot = context.endpoint(candidate).slot;
        let (_, tokens) = context.state.in_flight(slot);
        float(tokens) / self.raw.peak_prefill_throughput * 1000.0
    }
}

impl Filter for PrefixAffinity {
    fn filter(&self, context: &Context<'_>, candidates: &mut Vec<Candidate>) {
        if candidates.len() <= 1 || self.raw.affinity_threshold <= 0.0 {
            return;
        }
        if self.raw.exploration_probability > 0.0 && context.random_share() < self.raw.exploration_probability
        {
            return;
        }
        let matches = context.prefix(self.prefix);
        let (sticky, others): (Vec<_>, Vec<_>) = candidates
            .iter()
            .partition(|&&candidate| matches.ratio(candidate) >= self.raw.affinity_threshold);
        if sticky.is_empty() {
            return;
        }
        if self.raw.max_ttft_penalty_ms > 0.0 && !others.is_empty() {
            let best = |group: &[Candidate]| {
                group.iter().map(|&candidate| self.ttft_ms(context, candidate)).fold(f64::INFINITY, f64::min)
            };
            // Without any prediction both are infinite. The difference is then NaN, and the endpoints with the prompt stay.
            if best(&sticky) - best(&others) > self.raw.max_ttft_penalty_ms {
                return;
            }
        }
        *candidates = sticky;
    }
}
