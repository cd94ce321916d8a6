//! The images, audio and videos that were sent to each endpoint.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{cache::Cache, lookup::EncoderLookup};
use crate::{
    decision::Decision,
    endpoint::{Slot, Snapshot},
    finding::Finding,
    listing::Listing,
    media::Media,
    producer::ProducerState,
    request::Request,
};

/// The items that each endpoint has probably encoded: the last ones that it was sent, up to the size of its encoder's cache.
#[derive(Debug, Clone)]
pub(crate) struct EncoderCaches {
    /// The producer's name.
    plugin: Arc<str>,
    capacity: usize,
    by_slot: Vec<Cache>,
}

impl EncoderCaches {
    pub(super) fn new(plugin: &str, capacity: usize) -> Self {
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
}
