//! `random-picker`: picks any endpoint, without regard to its score.

use crate::{pickers::Count, prelude::*};

struct Random(Count);

pub(crate) fn build(parameters: &Parameters<'_>, _: &mut Builder) -> Result<Plugin, ConfigError> {
    Ok(Plugin::picker(Random(Count::read(parameters)?)))
}

impl Picker for Random {
    fn pick(&self, context: &Context<'_>, mut scored: Vec<(Candidate, f64)>) -> Vec<Candidate> {
        context.shuffle(&mut scored);
        scored.truncate(self.0.max_num_of_endpoints);
        scored.into_iter().map(|(candidate, _)| candidate).collect()
    }

    fn ignores_scores(&self) -> bool {
        true
    }
}
