//! `max-score-picker`: picks the best score, and a random endpoint among equals.

use crate::{pickers::Count, prelude::*};

#[derive(Debug, Default)]
pub(crate) struct MaxScore(Count);

pub(crate) fn build(parameters: &Parameters<'_>, _: &mut Builder) -> Result<Plugin, ConfigError> {
    Ok(Plugin::picker(MaxScore(Count::read(parameters)?)))
}

impl Picker for MaxScore {
    fn pick(&self, context: &Context<'_>, mut scored: Vec<(Candidate, f64)>) -> Vec<Candidate> {
        context.shuffle(&mut scored);
        if self.0.max_num_of_endpoints == 1 {
            // The first of the best ones, which sorting would put first too: of many candidates, it would be the most work of a pick.
            let best = scored.iter().rev().max_by(|(_, left), (_, right)| left.total_cmp(right));
            return best.map(|(candidate, _)| *candidate).into_iter().collect();
        }
        scored.sort_by(|(_, left), (_, right)| right.total_cmp(left));
        scored.truncate(self.0.max_num_of_endpoints);
        scored.into_iter().map(|(candidate, _)| candidate).collect()
    }
}
