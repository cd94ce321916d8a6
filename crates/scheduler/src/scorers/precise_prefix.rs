//! `precise-prefix-cache-scorer`: a precise prefix producer and its scorer in one, as before router 0.9.

use super::prefix_cache::PrefixCache;
use crate::{
    prelude::*,
    producers::precise_prefix::{RawParameters, declare},
};

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    let prefix = declare(raw, parameters, builder)?;
    Ok(Plugin::scorer(PrefixCache::by_share(prefix)))
}
