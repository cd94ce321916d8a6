//! `slo-headroom-tier-filter`: keeps the endpoints that are predicted to meet the times that a request asks for.

use crate::{prelude::*, producers::predicted_latency};

parameters! {
    struct SloHeadroom {
        epsilon_explore_neg: f64 = 0.01,
        latency_prediction_info_producer_name: Option<String>,
    }
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let filter: SloHeadroom = parameters.read()?;
    parameters.share("epsilonExploreNeg", filter.epsilon_explore_neg)?;
    predicted_latency::require(builder, parameters, filter.latency_prediction_info_producer_name.as_deref())?;
    Ok(Plugin::filter(filter))
}

impl Filter for SloHeadroom {
    fn filter(&self, context: &Context<'_>, candidates: &mut Vec<Candidate>) {
        if candidates.len() <= 1
            || candidates.iter().all(|&candidate| context.latency_headroom(candidate).is_none())
        {
            return;
        }
        // An endpoint without a prediction does not count as fast enough.
        let in_time = |candidate: &Candidate| {
            let headroom = context.latency_headroom(*candidate);
            headroom.is_some_and(|headroom| headroom.ttft_headroom >= 0.0 && headroom.tpot_headroom >= 0.0)
        };
        let (fast, slow): (Vec<_>, Vec<_>) = candidates.iter().copied().partition(in_time);
        // Slow endpoints get a request now and then. Otherwise the predictor would not learn that they have recovered.
        let explore = || context.random_share() < self.epsilon_explore_neg;
        *candidates = if fast.is_empty() || (!slow.is_empty() && explore()) { slow } else { fast };
    }
}
