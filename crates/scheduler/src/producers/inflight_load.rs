//! `inflight-load-producer`: counts requests and tokens in flight. They are always counted; the declaration only lets other
//! plugins name the producer.

use crate::prelude::*;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RawParameters {
    add_estimated_output_tokens: bool,
    // Only of use with the above.
    #[serde(rename = "outputRatio")]
    _output_ratio: Option<f64>,
    #[serde(rename = "maxEstimatedOutputTokens")]
    _max_estimated_output_tokens: Option<u64>,
    prefix_match_info_producer_name: Option<String>,
    /// There are no other replicas to share with.
    #[serde(rename = "syncCrossReplicaState")]
    _sync_cross_replica_state: Option<bool>,
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let given: RawParameters = parameters.read()?;
    parameters.require(
        !given.add_estimated_output_tokens,
        "addEstimatedOutputTokens",
        "it is not supported: only prompt tokens are counted",
    )?;
    if let Some(producer) = &given.prefix_match_info_producer_name {
        builder.wanted_prefixes.push((parameters.name.to_owned(), producer.clone()));
    }
    builder.requirements.loads.push(parameters.name.to_owned());
    Ok(Plugin::default())
}
