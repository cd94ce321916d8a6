//! `mm-embeddings-cache-producer`: remembers which endpoints were sent which images, audio and videos.

use std::sync::Arc;

use serde::Deserialize;

use crate::{error::ConfigError, parameters::Parameters, plugin::Plugin, registry::Builder};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Given {
    #[serde(rename = "cacheSizeInMBPerServer")]
    per_server: Option<i64>,
    /// Its former name, which a configuration that the reference publishes still has.
    #[serde(rename = "cacheSizeInMB")]
    former: Option<i64>,
}

/// The size of a model server's encoder cache, where it is not given.
const DEFAULT_MIB: i64 = 4096;
/// What one item is taken to need there.
const ITEM_MIB: i64 = 2;
/// A pool's memory is bounded by what its endpoints are said to have.
const MAX_MIB: i64 = 1 << 20;

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let given: Given = parameters.read()?;
    if given.per_server.is_some() && given.former.is_some() {
        return Err(parameters
            .invalid("cacheSizeInMB is the former name of cacheSizeInMBPerServer: give one of them"));
    }
    let size = given.per_server.or(given.former).unwrap_or_default();
    if size > MAX_MIB {
        return Err(parameters.invalid(format!(
            "cacheSizeInMBPerServer: expected a number of MiB up to {MAX_MIB}, found {size}"
        )));
    }
    builder.encoder_caches.push((Arc::from(parameters.name), items(size)));
    Ok(Plugin::default())
}

/// How many items an encoder cache of so many MiB holds; 0 or less: of the usual size.
pub(crate) fn items(mib: i64) -> usize {
    let mib = if mib <= 0 { DEFAULT_MIB } else { mib };
    usize::try_from(mib / ITEM_MIB).unwrap_or(usize::MAX).max(1)
}
