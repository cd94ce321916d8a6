//! `mm-embeddings-cache-producer`: remembers which images, audio and videos were sent to which endpoint.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

mod cache;

use cache::Cache;

use crate::{
    decision::Decision,
    endpoint::{Slot, Snapshot},
    error::ConfigError,
    media::Media,
    parameters::Parameters,
    plugin::Plugin,
    producer::{Finding, Producer, ProducerState},
    registry::Builder,
    request::Request,
    scheduler::Listing,
};

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
    let given: RawParameters = parameters.read()?;
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

/// The items that each endpoint has probably encoded: the last ones that it was sent, up to the size of its encoder's cache.
#[derive(Debug, Clone)]
pub(crate) struct EncoderCaches {
    /// The producer's name.
    plugin: Arc<str>,
    capacity: usize,
    by_slot: Vec<Cache>,
}

impl EncoderCaches {
    fn new(plugin: &str, capacity: usize) -> Self {
        Self { plugin: Arc::from(plugin), capacity, by_slot: Vec::new() }
    }

    /// Looks for a request's items on each candidate.
    pub(crate) fn lookup(&self, media: &[Media], candidates: &[Snapshot]) -> EncoderLookup {
        let width = media.len();
        let mut has = vec![false; width * candidates.len()];
        if width > 0 {
            for (row, candidate) in has.chunks_mut(width).zip(candidates) {
                let Some(cache) = self.by_slot.get(candidate.endpoint.slot.0 as usize) else { continue };
                for (has, item) in row.iter_mut().zip(media) {
                    *has = cache.contains(item.hash);
                }
            }
        }
        EncoderLookup { plugin: Arc::clone(&self.plugin), media: media.to_vec(), has }
    }
}

impl ProducerState for EncoderCaches {
    fn find(&self, request: &Request<'_>, candidates: &[Snapshot], _: u64) -> Finding {
        Finding::new(self.lookup(request.media, candidates))
    }

    /// Records that the endpoints that may receive the request were sent its items.
    fn learn(&mut self, finding: &Finding, decision: &Decision) {
        let Some(EncoderLookup { media, .. }) = finding.get() else { return };
        if media.is_empty() {
            return;
        }
        for slot in &decision.targets {
            let index = slot.0 as usize;
            if self.by_slot.len() <= index {
                self.by_slot.resize_with(index + 1, Cache::default);
            }
            let cache = &mut self.by_slot[index];
            for item in media {
                cache.touch(item.hash);
                if cache.len() > self.capacity {
                    cache.evict();
                }
            }
        }
    }

    fn forget(&mut self, slot: Slot) {
        if let Some(cache) = self.by_slot.get_mut(slot.0 as usize) {
            *cache = Cache::default();
        }
    }

    fn describe(&self, endpoints: &Listing<'_>) -> Option<Value> {
        let held = |slot: Slot| self.by_slot.get(slot.0 as usize).map_or(0, Cache::len);
        let items = endpoints.counts(|slot| held(slot).into());
        Some(json!({"items": items, "capacityPerEndpoint": self.capacity}))
    }

    fn copy(&self) -> Box<dyn ProducerState> {
        Box::new(self.clone())
    }
}

/// The lookup of a producer of encoder caches: the request's items, and which of them each candidate holds.
#[derive(Debug, Clone)]
pub struct EncoderLookup {
    /// The producer's name.
    pub plugin: Arc<str>,
    pub(crate) media: Vec<Media>,
    /// One row per candidate, with one entry per item.
    has: Vec<bool>,
}

impl EncoderLookup {
    /// Returns, for each candidate, whether it holds each of the items.
    pub fn candidates(&self) -> impl Iterator<Item = &[bool]> {
        self.has.chunks(self.media.len().max(1))
    }

    /// Returns the share of the items that a candidate holds. 0 if there are no items.
    pub(crate) fn ratio(&self, candidate: usize) -> f64 {
        if self.media.is_empty() {
            return 0.0;
        }
        let float = |count: u64| u32::try_from(count).map_or(f64::from(u32::MAX), f64::from);
        float(self.count(candidate)) / float(self.media.len() as u64)
    }

    /// Returns the number of items that a candidate holds.
    pub(crate) fn count(&self, candidate: usize) -> u64 {
        let width = self.media.len();
        let row = self.has.get(candidate * width..(candidate + 1) * width).unwrap_or_default();
        row.iter().filter(|has| **has).count() as u64
    }
}
