//! `pd-profile-handler` (deprecated): `disagg-profile-handler` for decode and prefill, with a threshold.

use std::sync::Arc;

use crate::{
    deciders::{always::Always, prefix_based::PrefixBased},
    handlers::disagg::Disagg,
    prelude::*,
};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RawParameters {
    threshold: u64,
    prefill_profile: Option<String>,
    decode_profile: Option<String>,
    decider_plugin_name: Option<String>,
    // Of the producer and of the data-parallel handler, which this plugin once was; upstream ignores them too.
    #[serde(rename = "hashBlockSize")]
    _hash_block_size: Option<u32>,
    #[serde(rename = "primaryPort")]
    _primary_port: Option<u16>,
    #[serde(rename = "prefixPluginType")]
    _prefix_plugin_type: Option<String>,
    #[serde(rename = "prefixPluginName")]
    _prefix_plugin_name: Option<String>,
}

/// The threshold counted characters; the decider counts tokens of four.
const CHARACTERS_PER_TOKEN: u64 = 4;

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    let decider: Arc<dyn Decider> = match (&raw.decider_plugin_name, raw.threshold) {
        (Some(name), _) => builder.decider(parameters.name, name)?,
        (None, 0) => Arc::new(Always),
        (None, threshold) => {
            let prefix = builder.prefix(parameters, None)?;
            Arc::new(PrefixBased::new(threshold.div_ceil(CHARACTERS_PER_TOKEN), prefix))
        }
    };
    Ok(Plugin::handler(Disagg::pair(
        raw.decode_profile.unwrap_or_else(|| "decode".to_owned()),
        raw.prefill_profile.unwrap_or_else(|| "prefill".to_owned()),
        decider,
    )))
}
