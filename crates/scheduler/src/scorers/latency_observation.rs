//! `latency-observation-scorer-hub`: prefers endpoints where the first token is predicted to come soon, from the times that this
//! picker has measured there. It needs no metrics of the endpoints.

use crate::{
    prelude::*,
    producers::latency_observer::{self, LatencyCurve, LatencyObservations},
};

parameters! {
    struct RawParameters {
        exploration_rate: f64 = 0.1,
        min_inflight_gap: f64 = 2.0,
        #[serde(rename = "roundTTFTStep")]
        round_ttft_step: f64,
        ttft_percentiles_producer_name: Option<String>,
        in_flight_load_producer_name: Option<String>,
    }
}

struct LatencyObservation {
    raw: RawParameters,
    /// The place of the observer.
    observer: usize,
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    parameters.share("explorationRate", raw.exploration_rate)?;
    parameters.above_zero("minInflightGap", raw.min_inflight_gap)?;
    parameters.zero_or_more("roundTTFTStep", raw.round_ttft_step)?;
    builder.load_producer(parameters, raw.in_flight_load_producer_name.as_deref())?;
    let observer =
        latency_observer::place(builder, parameters, raw.ttft_percentiles_producer_name.as_deref())?;
    Ok(Plugin::scorer(LatencyObservation { raw, observer }))
}

/// What is known of the next first token of a candidate.
struct Estimate {
    /// Seconds. `None` if too little was observed.
    ttft: Option<f64>,
    is_calibrated: bool,
}

impl Scorer for LatencyObservation {
    fn score(&self, context: &Context<'_>, candidates: &[Candidate], scores: &mut [f64]) {
        let Some(observed) = context.state.producer::<LatencyObservations>(self.observer) else { return };
        let estimate = |candidate: &Candidate| {
            let slot = context.endpoint(*candidate).slot;
            let curve = observed.curve(slot, context.now);
            let ttft = curve.floor.map(|floor| self.ttft(&curve, floor, context.state.in_flight(slot).0));
            Estimate { ttft, is_calibrated: curve.is_calibrated }
        };
        let estimates: Vec<_> = candidates.iter().map(estimate).collect();
        let known = || estimates.iter().filter_map(|estimate| estimate.ttft);
        let Some(best) = known().min_by(f64::total_cmp) else { return scores.fill(1.0) };
        let worst = known().fold(best, f64::max);
        let has_calibrated = estimates.iter().any(|estimate| estimate.is_calibrated);
        for (score, estimate) in scores.iter_mut().zip(&estimates) {
            // An endpoint of which nothing is known counts as the best one.
            let ttft = estimate.ttft.unwrap_or(best);
            *score = if worst > best { (worst - ttft) / (worst - best) } else { 1.0 };
            // An endpoint of which little is known would never become known beside a better one. So it gets a share of the
            // requests, and no more while there is an endpoint that is known.
            if !estimate.is_calibrated && self.raw.exploration_rate > 0.0 {
                if context.random_share() < self.raw.exploration_rate {
                    *score = 1.0;
                } else if has_calibrated {
                    *score = 0.0;
                }
            }
        }
    }
}

impl LatencyObservation {
    /// Predicts the seconds to the first token with this many requests in flight.
    fn ttft(&self, curve: &LatencyCurve, floor: f64, in_flight: u64) -> f64 {
        let LatencyCurve { low, typical, is_calibrated, .. } = *curve;
        let load = float(in_flight);
        // Between points that are close together, or not in order, the line would follow noise, or fall.
        let has_low = typical.load - low.load >= self.raw.min_inflight_gap
            && typical.ttft > low.ttft
            && low.ttft > floor
            && low.load > 0.0;
        let ttft = if !is_calibrated {
            floor
        } else if !has_low {
            floor + load * (typical.ttft - floor) / typical.load
        } else if load < low.load {
            floor + load * (low.ttft - floor) / low.load
        } else {
            low.ttft + (load - low.load) * (typical.ttft - low.ttft) / (typical.load - low.load)
        };
        let step = self.raw.round_ttft_step;
        if step > 0.0 { (ttft / step).round() * step } else { ttft }
    }
}
