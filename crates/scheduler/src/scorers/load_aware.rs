//! `load-aware-scorer`: scores from 0.5 for an empty queue down to 0 for a queue at the threshold.

use crate::prelude::*;

parameters! {
    struct LoadAware {
        threshold: f64 = 128.0,
    }
}

pub(crate) fn build(parameters: &Parameters<'_>, _: &mut Builder) -> Result<Plugin, ConfigError> {
    let scorer: LoadAware = parameters.read()?;
    parameters.above_zero("threshold", scorer.threshold)?;
    Ok(Plugin::scorer(scorer))
}

impl Scorer for LoadAware {
    fn score(&self, context: &Context<'_>, candidates: &[Candidate], scores: &mut [f64]) {
        for (score, &candidate) in scores.iter_mut().zip(candidates) {
            let waiting = context.metrics(candidate).waiting;
            *score = 0.5 * (1.0 - waiting.min(self.threshold) / self.threshold);
        }
    }
}
