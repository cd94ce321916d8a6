//! `no-hit-lru-scorer`: sends requests without a cached prefix to the endpoints that were used longest ago.

use serde::Deserialize;

use crate::{
    context::{Candidate, Context},
    error::ConfigError,
    parameters::Parameters,
    plugin::{Plugin, Scorer},
    prefix::Settings,
    registry::Builder,
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Given {
    lru_size: usize,
    prefix_match_info_producer_name: Option<String>,
    // Former spellings of the producer's name, which upstream reads and ignores.
    #[serde(rename = "prefixPluginType")]
    _prefix_plugin_type: Option<String>,
    #[serde(rename = "prefixPluginName")]
    _prefix_plugin_name: Option<String>,
}

impl Default for Given {
    fn default() -> Self {
        Self {
            lru_size: 1024,
            prefix_match_info_producer_name: None,
            _prefix_plugin_type: None,
            _prefix_plugin_name: None,
        }
    }
}

struct NoHitLru {
    prefix: usize,
    idle: usize,
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let given: Given = parameters.read()?;
    if given.lru_size == 0 {
        return Err(parameters.invalid("lruSize must be positive"));
    }
    let prefix =
        builder.prefix(parameters, given.prefix_match_info_producer_name.as_deref(), Settings::default())?;
    builder.idle.push((parameters.name.to_owned(), given.lru_size, prefix));
    Ok(Plugin::scorer(NoHitLru { prefix, idle: builder.idle.len() - 1 }))
}

impl Scorer for NoHitLru {
    #[expect(clippy::cast_precision_loss, reason = "the number of endpoints is far below 2^52")]
    fn score(&self, context: &Context<'_>, candidates: &[Candidate], scores: &mut [f64]) {
        if !context.prefixes[self.prefix].is_cold() {
            scores.fill(0.5);
            return;
        }
        if let [only] = scores {
            *only = 1.0;
            return;
        }
        let order = &context.state.idle[self.idle].order;
        // The rank is the position in the order of use. Endpoints that were never used come first, in random order.
        let mut ranked: Vec<(usize, usize)> = candidates
            .iter()
            .enumerate()
            .map(|(place, &candidate)| {
                let slot = context.endpoint(candidate).slot;
                let rank = order.iter().position(|&used| used == slot).map_or(0, |rank| rank + 1);
                (rank, place)
            })
            .collect();
        context.shuffle(&mut ranked);
        ranked.sort_by_key(|&(rank, _)| rank);
        let last = (candidates.len() - 1) as f64;
        for (position, (_, place)) in ranked.into_iter().enumerate() {
            scores[place] = 1.0 - position as f64 / last;
        }
    }
}
