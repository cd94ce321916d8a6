//! `weighted-random-picker`: picks at random, in proportion to the score (A-Res sampling).

use crate::{pickers::Count, prelude::*};

struct WeightedRandom(Count);

pub(crate) fn build(parameters: &Parameters<'_>, _: &mut Builder) -> Result<Plugin, ConfigError> {
    Ok(Plugin::picker(WeightedRandom(Count::read(parameters)?)))
}

impl Picker for WeightedRandom {
    fn pick(&self, context: &Context<'_>, mut scored: Vec<(Candidate, f64)>) -> Vec<Candidate> {
        context.shuffle(&mut scored);
        if scored.iter().any(|(_, score)| *score > 0.0) {
            for (_, score) in &mut scored {
                // A key of 0 puts candidates without a score last. The shuffle decides their order.
                *score = if *score > 0.0 { context.random_share().powf(score.recip()) } else { 0.0 };
            }
            scored.sort_by(|(_, left), (_, right)| right.total_cmp(left));
        }
        scored.truncate(self.0.max_num_of_endpoints);
        scored.into_iter().map(|(candidate, _)| candidate).collect()
    }
}
