//! `approx-prefix-cache-producer`: remembers which prompts were sent to which endpoint.

use crate::{prefix::Settings, prelude::*};

/// The parameters, also understood on `prefix-cache-scorer` as before router 0.9.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawParameters {
    pub(crate) auto_tune: Option<bool>,
    pub(crate) block_size: Option<u32>,
    pub(crate) block_size_tokens: Option<u32>,
    pub(crate) max_prefix_tokens_to_match: Option<u32>,
    pub(crate) max_prefix_blocks_to_match: Option<u32>,
    pub(crate) lru_capacity_per_server: Option<u32>,
    /// Ours: how many prompts must have left a prefix for it to count as shared by many, and so as nobody's.
    pub(crate) shared_prefix_after: Option<u32>,
}

impl RawParameters {
    pub(crate) fn settings(&self, parameters: &Parameters<'_>) -> Result<Settings, ConfigError> {
        let usual = Settings::default();
        let settings = Settings {
            auto_tune: self.auto_tune.unwrap_or(usual.auto_tune),
            block_tokens: self.block_size_tokens.or(self.block_size).unwrap_or(usual.block_tokens),
            max_tokens: self.max_prefix_tokens_to_match.unwrap_or(usual.max_tokens),
            max_blocks: self.max_prefix_blocks_to_match.unwrap_or(usual.max_blocks),
            capacity: self.lru_capacity_per_server.unwrap_or(usual.capacity),
            shared_after: self.shared_prefix_after.unwrap_or(usual.shared_after),
        };
        parameters.above_zero("lruCapacityPerServer", settings.capacity)?;
        Ok(settings)
    }
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    builder.add(parameters, PrefixSource::Approximate(raw.settings(parameters)?));
    Ok(Plugin::default())
}
