//! `token-load-scorer`: prefers endpoints with fewer tokens in flight, this request's tokens included.

use crate::prelude::*;

parameters! {
    struct TokenLoad {
        queue_threshold_tokens: f64 = 4_194_304.0,
        in_flight_load_producer_name: Option<String>,
    }
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let scorer: TokenLoad = parameters.read()?;
    parameters.above_zero("queueThresholdTokens", scorer.queue_threshold_tokens)?;
    // As in the reference, this plugin does not create its producer itself.
    if builder.requirements.loads.is_empty() {
        return Err(ConfigError::MissingProducer {
            name: parameters.name.to_owned(),
            needs: "the tokens in flight",
            declare: "inflight-load-producer",
        });
    }
    builder.load_producer(parameters, scorer.in_flight_load_producer_name.as_deref())?;
    Ok(Plugin::scorer(scorer))
}

impl Scorer for TokenLoad {
    fn score(&self, context: &Context<'_>, candidates: &[Candidate], scores: &mut [f64]) {
        for (score, &candidate) in scores.iter_mut().zip(candidates) {
            let (_, in_flight) = context.state.in_flight(context.endpoint(candidate).slot);
            let load = float(in_flight + context.uncached_tokens(candidate) + context.output_tokens);
            *score = 1.0 - load.min(self.queue_threshold_tokens) / self.queue_threshold_tokens;
        }
    }
}
