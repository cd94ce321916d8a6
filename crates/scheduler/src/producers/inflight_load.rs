//! `inflight-load-producer`: counts requests and tokens in flight. They are always counted; the declaration lets other plugins name
//! the producer, and says whether tokens that are still to be generated count too.

use crate::prelude::*;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RawParameters {
    add_estimated_output_tokens: bool,
    output_ratio: Option<f64>,
    max_estimated_output_tokens: Option<u64>,
    prefix_match_info_producer_name: Option<String>,
    /// There are no other replicas to share with.
    #[serde(rename = "syncCrossReplicaState")]
    _sync_cross_replica_state: Option<bool>,
}

/// The estimated tokens of a response for each token of its prompt, unless configured.
const OUTPUT_RATIO: f64 = 1.5;

/// Estimates how many tokens a request generates. They count as load until its response ends.
#[derive(Debug)]
pub(crate) struct OutputEstimate {
    ratio: f64,
    max: Option<u64>,
}

impl OutputEstimate {
    /// `limit` is the limit of the client, if it has set one.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from 0 to u32::MAX")]
    pub(crate) fn tokens(&self, prompt: u64, limit: Option<u64>) -> u64 {
        // Far beyond any context, so that sums of all requests cannot overflow.
        let estimate = (float(prompt) * self.ratio).round().min(f64::from(u32::MAX)) as u64;
        [limit, self.max].into_iter().flatten().fold(estimate, u64::min)
    }
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    let ratio = raw.output_ratio.unwrap_or(OUTPUT_RATIO);
    parameters.zero_or_more("outputRatio", ratio)?;
    if raw.add_estimated_output_tokens {
        builder.requirements.output = Some(OutputEstimate { ratio, max: raw.max_estimated_output_tokens });
    }
    if let Some(producer) = raw.prefix_match_info_producer_name.filter(|name| !name.is_empty()) {
        builder.load_prefix.get_or_insert_with(|| (parameters.name.to_owned(), producer));
    }
    builder.requirements.loads.push(parameters.name.to_owned());
    Ok(Plugin::default())
}
