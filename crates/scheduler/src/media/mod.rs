//! The images, audio and videos of requests, and the endpoints that have probably encoded them already.

use std::sync::Arc;

use serde_json::{Value, json};
use xxhash_rust::xxh64::xxh64;

mod cache;

use cache::Cache;

use crate::{
    decision::Decision,
    endpoint::{Slot, Snapshot},
    producer::{Finding, ProducerState},
    request::Request,
    scheduler::Listing,
};

/// The kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Modality {
    /// An image.
    Image,
    /// Audio.
    Audio,
    /// A video.
    Video,
    /// Any other name of a tokenizer.
    Other,
}

impl Modality {
    /// Returns the modality with this name in vLLM and in the reference.
    pub fn of(name: &str) -> Self {
        match name {
            "image" => Self::Image,
            "audio" => Self::Audio,
            "video" => Self::Video,
            _ => Self::Other,
        }
    }

    /// Returns the name in vLLM and in the reference.
    pub fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Audio => "audio",
            Self::Video => "video",
            Self::Other => "other",
        }
    }
}

/// An item of a request, identified by a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Media {
    /// The kind of the item.
    pub modality: Modality,
    pub(crate) hash: u64,
}

impl Media {
    /// Creates the item with this content, which is its URL, its data, or a tokenizer's hash.
    pub fn new(modality: Modality, content: &[u8]) -> Self {
        Self { modality, hash: xxh64(content, 0) }
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
    pub(crate) fn new(plugin: &str, capacity: usize) -> Self {
        Self { plugin: Arc::from(plugin), capacity, by_slot: Vec::new() }
    }

    /// Looks for a request's items on each candidate.
    pub(crate) fn look(&self, media: &[Media], candidates: &[Snapshot]) -> EncoderLookup {
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
        Finding::new(self.look(request.media, candidates))
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
