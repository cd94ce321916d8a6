//! `latency-slo-admitter`: drops requests of negative priority that no endpoint is predicted to answer in time.

use crate::{latency::LatencyObjective, plugin::Admitter, prelude::*, producers::predicted_latency};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RawParameters {
    latency_prediction_info_producer_name: Option<String>,
}

struct LatencySlo;

/// Below this use of its KV cache, an endpoint has hardly worked yet, so predictions about it mean little.
const COLD_CACHE_USAGE: f64 = 0.02;

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    predicted_latency::require(builder, parameters, raw.latency_prediction_info_producer_name.as_deref())?;
    Ok(Plugin::admitter(LatencySlo))
}

impl Admitter for LatencySlo {
    fn admit(&self, context: &Context<'_>) -> Result<(), ScheduleError> {
        if context.request.priority >= 0 || !LatencyObjective::of(context.request.headers).any() {
            return Ok(());
        }
        let mut predicted = false;
        for (candidate, snapshot) in context.candidates.iter().enumerate() {
            let headroom = context.latency_headroom(candidate);
            predicted |= headroom.is_some();
            let (cold, idle) =
                (snapshot.metrics.kv_usage < COLD_CACHE_USAGE, snapshot.metrics.running <= 0.0);
            if cold || idle || headroom.is_some_and(|headroom| headroom.valid) {
                return Ok(());
            }
        }
        if predicted { Err(ScheduleError::TooSlow) } else { Ok(()) }
    }
}
