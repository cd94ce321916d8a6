//! `mm-embeddings-cache-producer`: remembers which images, audio and videos were sent to which endpoint.

use std::sync::Arc;

use serde::Deserialize;

use crate::{error::ConfigError, parameters::Parameters, plugin::Plugin, registry::Builder};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Given {
    #[serde(rename = "cacheSizeInMBPerServer")]
    per_server: Option<i64>,
    /// The former name. A configuration that the reference publishes still uses it.
    #[serde(rename = "cacheSizeInMB")]
    former: Option<i64>,
}

/// The default size of a model server's encoder cache.
const DEFAULT_MIB: i64 = 4096;
/// The assumed size of one item.
const ITEM_MIB: i64 = 2;
/// The largest size. It bounds the memory that the picker needs for a pool.
const MAX_MIB: i64 = 1 << 20;

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let given: Given = parameters.read()?;
    if given.per_server.is_some() && given.former.is_some() {
        return Err(parameters
            .invalid("cacheSizeInMB is the former name of cacheSizeInMBPerServer: set only one of them"));
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

/// Returns the number of items in an encoder cache of `mib` MiB. With 0 or less, the default size is used.
pub(crate) fn items(mib: i64) -> usize {
    let mib = if mib <= 0 { DEFAULT_MIB } else { mib };
    usize::try_from(mib / ITEM_MIB).unwrap_or(usize::MAX).max(1)
}
