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
    primary_port: Option<u16>,
    prefix_match_info_producer_name: Option<String>,
    // Of the producer, which this plugin once was; upstream ignores them too.
    #[serde(rename = "hashBlockSize")]
    _hash_block_size: Option<u32>,
    #[serde(rename = "prefixPluginType")]
    _prefix_plugin_type: Option<String>,
    #[serde(rename = "prefixPluginName")]
    _prefix_plugin_name: Option<String>,
}

/// The decider that counts if none is named, and one with this name is declared.
const DECIDER: &str = "prefix-based-pd-decider";

/// The threshold counted characters; the decider counts tokens of four.
const CHARACTERS_PER_TOKEN: u64 = 4;

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    let named = raw.decider_plugin_name.as_deref().filter(|name| !name.is_empty());
    let decider: Arc<dyn Decider> = match (named, raw.threshold) {
        (Some(name), _) => builder.decider(parameters.name, name)?,
        (None, 0) => match builder.deciders.get(DECIDER) {
            Some(decider) => Arc::clone(decider),
            None => Arc::new(Always),
        },
        (None, threshold) => {
            let prefix = builder.prefix(parameters, raw.prefix_match_info_producer_name.as_deref())?;
            Arc::new(PrefixBased::new(threshold.div_ceil(CHARACTERS_PER_TOKEN), prefix))
        }
    };
    Ok(Plugin::handler(Disagg::pair(
        raw.decode_profile.unwrap_or_else(|| "decode".to_owned()),
        raw.prefill_profile.unwrap_or_else(|| "prefill".to_owned()),
        decider,
        raw.primary_port.filter(|port| *port != 0),
    )))
}
