//! `utilization-detector` and `concurrency-detector` as filters: they drop endpoints that are full.

use crate::{
    flow::{ConcurrencyMode, Detector, FilterDetector, read_detector},
    prelude::*,
};

struct Saturation {
    detector: Detector,
    /// How far an endpoint may exceed its limit: 0.2 allows a fifth more.
    headroom: f64,
}

pub(crate) fn build(
    plugin_type: &str,
    parameters: &Parameters<'_>,
    builder: &Builder,
) -> Result<Plugin, ConfigError> {
    let FilterDetector { detector, headroom, load_producer } = read_detector(plugin_type, parameters)?;
    builder.load_producer(parameters, load_producer.as_deref())?;
    Ok(Plugin::filter(Saturation { detector, headroom }))
}

impl Saturation {
    fn has_room(&self, context: &Context<'_>, candidate: Candidate) -> bool {
        let more = 1.0 + self.headroom;
        match &self.detector {
            Detector::Utilization { queue_depth, kv_usage, .. } => {
                let snapshot = &context.candidates[candidate];
                snapshot.fresh
                    && snapshot.metrics.waiting < queue_depth * more
                    && snapshot.metrics.kv_usage < kv_usage * more
            }
            // Not a filter: profiles list the detectors themselves.
            Detector::Max(_) => true,
            Detector::Concurrency { requests, tokens, mode } => {
                let load = context.state.in_flight(context.endpoint(candidate).slot);
                // The limit is rounded down to whole requests or tokens.
                let below = |load: u64, limit: u64| float(load) < (float(limit) * more).floor();
                match mode {
                    ConcurrencyMode::Requests => below(load.0, *requests),
                    ConcurrencyMode::Tokens => below(load.1, *tokens),
                    ConcurrencyMode::Hybrid => below(load.0, *requests) && below(load.1, *tokens),
                }
            }
        }
    }
}

impl Filter for Saturation {
    fn filter(&self, context: &Context<'_>, candidates: &mut Vec<Candidate>) {
        let kept: Vec<_> =
            candidates.iter().copied().filter(|&candidate| self.has_room(context, candidate)).collect();
        // If all endpoints are full by their metrics, all are kept, because metrics are always late. Counts of requests in
        // flight are exact, so they may drop all.
        let exact = matches!(self.detector, Detector::Concurrency { .. });
        if exact || !kept.is_empty() {
            *candidates = kept;
        }
    }
}
