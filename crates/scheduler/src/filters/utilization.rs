//! `utilization-filter` (alpha): keeps endpoints that are below all configured limits.

use crate::prelude::*;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Utilization {
    conditions: Vec<Condition>,
    fallback_on_empty: bool,
    in_flight_load_producer_name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Condition {
    metric: Metric,
    max_value: f64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Metric {
    ActiveRequests,
    RunningRequests,
    WaitingQueue,
    KvCacheUtilization,
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let filter: Utilization = parameters.read()?;
    parameters.require(!filter.conditions.is_empty(), "conditions", "at least one is required")?;
    for (index, condition) in filter.conditions.iter().enumerate() {
        let field = format!("conditions[{index}].maxValue");
        match condition.metric {
            Metric::KvCacheUtilization => parameters.share(&field, condition.max_value)?,
            _ => parameters.zero_or_more(&field, condition.max_value)?,
        }
    }
    builder.load_producer(parameters, filter.in_flight_load_producer_name.as_deref())?;
    Ok(Plugin::filter(filter))
}

impl Condition {
    fn holds(&self, context: &Context<'_>, candidate: Candidate) -> bool {
        let metrics = context.metrics(candidate);
        let value = match self.metric {
            Metric::ActiveRequests => float(context.state.in_flight(context.endpoint(candidate).slot).0),
            Metric::RunningRequests => metrics.running,
            Metric::WaitingQueue => metrics.waiting,
            Metric::KvCacheUtilization => metrics.kv_usage,
        };
        value <= self.max_value
    }
}

impl Filter for Utilization {
    fn filter(&self, context: &Context<'_>, candidates: &mut Vec<Candidate>) {
        let kept: Vec<_> = candidates
            .iter()
            .copied()
            .filter(|&candidate| self.conditions.iter().all(|condition| condition.holds(context, candidate)))
            .collect();
        if !kept.is_empty() || !self.fallback_on_empty {
            *candidates = kept;
        }
    }
}
