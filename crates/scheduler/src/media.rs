//! Images, audio and videos of requests, and which endpoints have probably encoded them already.

use std::sync::Arc;

use xxhash_rust::xxh64::xxh64;

use crate::{
    endpoint::{Slot, Snapshot},
    prefix::cache::Cache,
};

/// What an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Modality {
    /// A picture.
    Image,
    /// Sound.
    Audio,
    /// Moving pictures.
    Video,
    /// What a tokenizer calls by another name.
    Other,
}

impl Modality {
    /// By the name that vLLM and the reference use.
    pub fn of(name: &str) -> Self {
        match name {
            "image" => Self::Image,
            "audio" => Self::Audio,
            "video" => Self::Video,
            _ => Self::Other,
        }
    }

    /// That name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Audio => "audio",
            Self::Video => "video",
            Self::Other => "other",
        }
    }
}

/// An item of a request, by a hash of what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Media {
    /// What it is.
    pub modality: Modality,
    pub(crate) hash: u64,
}

impl Media {
    /// The item with this content: its address, its data, or the hash that a tokenizer gave it.
    pub fn new(modality: Modality, content: &[u8]) -> Self {
        Self { modality, hash: xxh64(content, 0) }
    }
}

/// What each endpoint has probably encoded: what it was sent last, as many items as fit its encoder's cache.
#[derive(Debug, Clone)]
pub(crate) struct EncoderCaches {
    capacity: usize,
    by_slot: Vec<Cache>,
}

impl EncoderCaches {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, by_slot: Vec::new() }
    }

    /// How many items an endpoint has.
    pub(crate) fn held(&self, slot: Slot) -> usize {
        self.by_slot.get(slot.0 as usize).map_or(0, Cache::len)
    }

    pub(crate) fn look(&self, media: &[Media], candidates: &[Snapshot]) -> Encoded {
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
        Encoded { width, has }
    }

    /// An endpoint is sent these items.
    pub(crate) fn learn(&mut self, slot: Slot, media: &[Media]) {
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

    pub(crate) fn forget(&mut self, slot: Slot) {
        if let Some(cache) = self.by_slot.get_mut(slot.0 as usize) {
            *cache = Cache::default();
        }
    }
}

/// Which of a request's items each candidate has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Encoded {
    /// How many items there are.
    width: usize,
    /// A row of items for each candidate.
    has: Vec<bool>,
}

impl Encoded {
    /// The share of the items that a candidate has; 0 where there are none.
    pub(crate) fn ratio(&self, candidate: usize) -> f64 {
        if self.width == 0 {
            return 0.0;
        }
        let count = self.row(candidate).iter().filter(|has| **has).count();
        let float = |count: usize| u32::try_from(count).map_or(f64::from(u32::MAX), f64::from);
        float(count) / float(self.width)
    }

    fn row(&self, candidate: usize) -> &[bool] {
        self.has.get(candidate * self.width..(candidate + 1) * self.width).unwrap_or_default()
    }
}

/// What a producer of encoder caches found for a request that has media.
#[derive(Debug, Clone)]
pub struct EncoderLookup {
    /// The producer's name.
    pub plugin: Arc<str>,
    pub(crate) encoded: Encoded,
}

impl EncoderLookup {
    /// For each of so many candidates: whether it has each of the items.
    pub fn candidates(&self) -> impl Iterator<Item = &[bool]> {
        self.encoded.has.chunks(self.encoded.width.max(1))
    }
}

/// What a decision about a request with media leaves behind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sent {
    pub(crate) media: Vec<Media>,
    /// The endpoints that it may go to.
    pub(crate) slots: Vec<Slot>,
}
