//! `active-request-scorer`: prefers endpoints with fewer requests of this picker in flight.

use crate::prelude::*;

parameters! {
    struct ActiveRequest {
        idle_threshold: u64,
        max_busy_score: f64 = 1.0,
        in_flight_load_producer_name: Option<String>,
        /// Accepted as upstream does: counts end with their requests, not after a time.
        #[serde(rename = "requestTimeout")]
        _request_timeout: Option<String>,
    }
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let scorer: ActiveRequest = parameters.read()?;
    parameters.share("maxBusyScore", scorer.max_busy_score)?;
    builder.load_producer(parameters, scorer.in_flight_load_producer_name.as_deref())?;
    Ok(Plugin::scorer(scorer))
}

impl Scorer for ActiveRequest {
    fn score(&self, context: &Context<'_>, candidates: &[Candidate], scores: &mut [f64]) {
        let count = |candidate: &Candidate| context.state.in_flight(context.endpoint(*candidate).slot).0;
        let most = candidates.iter().map(count).max().unwrap_or_default();
        for (score, candidate) in scores.iter_mut().zip(candidates) {
            let active = count(candidate);
            *score = if active <= self.idle_threshold {
                1.0
            } else {
                float(most - active) / float(most) * self.max_busy_score
            };
        }
    }
}
