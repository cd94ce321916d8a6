//! `prefix-cache-scorer`: scores by the share of the prompt that is probably cached at the endpoint, optionally also by its
//! length.

use crate::{prelude::*, producers::approx_prefix::RawParameters as Producer};

parameters! {
    struct RawParameters {
        prefix_match_info_producer_name: Option<String>,
        match_length_weight: f64,
        match_length_scale_tokens: f64 = 8192.0,
        // Before router 0.9 this plugin was its own producer; configurations of that time name its parameters here.
        auto_tune: Option<bool>,
        block_size: Option<u32>,
        block_size_tokens: Option<u32>,
        max_prefix_tokens_to_match: Option<u32>,
        max_prefix_blocks_to_match: Option<u32>,
        lru_capacity_per_server: Option<u32>,
    }
}

pub(super) struct PrefixCache {
    prefix: usize,
    length_weight: f64,
    length_scale: f64,
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    parameters.share("matchLengthWeight", raw.match_length_weight)?;
    parameters.above_zero("matchLengthScaleTokens", raw.match_length_scale_tokens)?;
    let producer = Producer {
        auto_tune: raw.auto_tune,
        block_size: raw.block_size,
        block_size_tokens: raw.block_size_tokens,
        max_prefix_tokens_to_match: raw.max_prefix_tokens_to_match,
        max_prefix_blocks_to_match: raw.max_prefix_blocks_to_match,
        lru_capacity_per_server: raw.lru_capacity_per_server,
        shared_prefix_after: None,
    };
    let declared = builder.producers.len();
    let wanted = raw.prefix_match_info_producer_name.as_deref();
    let prefix = builder.prefix_or(parameters, wanted, producer.settings(parameters)?)?;
    if prefix < declared && producer != Producer::default() {
        let why = format!(
            "no effect: set the parameters of the prefix producer at plugin \"{}\"",
            builder.producers[prefix].name
        );
        builder.warnings.push((parameters.name.to_owned(), why));
    }
    Ok(Plugin::scorer(PrefixCache {
        prefix,
        length_weight: raw.match_length_weight,
        length_scale: raw.match_length_scale_tokens,
    }))
}

impl PrefixCache {
    /// Scores by the cached share of the prompt alone.
    pub(super) fn by_share(prefix: usize) -> Self {
        Self { prefix, length_weight: 0.0, length_scale: 1.0 }
    }
}

impl Scorer for PrefixCache {
    fn score(&self, context: &Context<'_>, candidates: &[Candidate], scores: &mut [f64]) {
        let matches = context.prefix(self.prefix);
        for (score, &candidate) in scores.iter_mut().zip(candidates) {
            let tokens = f64::from(matches.own(candidate)) * f64::from(matches.block_tokens());
            let length = (tokens / self.length_scale).min(1.0);
            *score =
                self.length_weight * length * length + (1.0 - self.length_weight) * matches.ratio(candidate);
        }
    }
}
