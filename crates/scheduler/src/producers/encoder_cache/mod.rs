//! `mm-embeddings-cache-producer`: remembers which images, audio and videos were sent to which endpoint.

mod cache;
pub(crate) mod caches;
pub(crate) mod lookup;

use caches::EncoderCaches;
use longboat_api::picker_plugins::ENCODER_CACHE_PRODUCER;

use crate::prelude::*;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RawParameters {
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
    let raw: RawParameters = parameters.read()?;
    parameters.require(
        raw.per_server.is_none() || raw.former.is_none(),
        "cacheSizeInMB",
        "it is the former name of cacheSizeInMBPerServer: set only one of them",
    )?;
    let size = raw.per_server.or(raw.former).unwrap_or_default();
    parameters.require(
        size <= MAX_MIB,
        "cacheSizeInMBPerServer",
        format!("expected a number of MiB up to {MAX_MIB}, found {size}"),
    )?;
    builder.add(parameters, EncoderCache::new(parameters.name, size));
    Ok(Plugin::default())
}

/// A producer of encoder caches.
pub(crate) struct EncoderCache {
    name: String,
    /// The number of items that it remembers for each endpoint.
    items: usize,
}

impl EncoderCache {
    /// Creates a producer for caches of `mib` MiB. With 0 or less, the default size is used.
    pub(crate) fn new(name: &str, mib: i64) -> Self {
        let mib = if mib <= 0 { DEFAULT_MIB } else { mib };
        Self { name: name.to_owned(), items: usize::try_from(mib / ITEM_MIB).unwrap_or(usize::MAX).max(1) }
    }
}

impl Producer for EncoderCache {
    fn state(&self) -> Box<dyn ProducerState> {
        Box::new(EncoderCaches::new(&self.name, self.items))
    }

    fn looks_at_media(&self) -> bool {
        true
    }
}

/// Returns the place of the producer of encoder caches that a plugin reads: the one that its field names, or else the first
/// one. A default producer is created if none is declared.
pub(crate) fn place(
    builder: &mut Builder,
    parameters: &Parameters<'_>,
    field: &'static str,
    producer: Option<&str>,
) -> Result<usize, ConfigError> {
    let reference = (field, "a declared mm-embeddings-cache-producer");
    let usual = ENCODER_CACHE_PRODUCER;
    let found = builder.place(parameters, reference, producer, usual, |_: &EncoderCache| true)?;
    Ok(found.unwrap_or_else(|| builder.add(&Parameters::undeclared(usual), EncoderCache::new(usual, 0))))
}
