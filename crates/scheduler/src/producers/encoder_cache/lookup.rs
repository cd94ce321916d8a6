//! Which of a request's images, audio and videos each candidate has probably encoded.

use std::sync::Arc;

use crate::{media::Media, numbers::float};

/// The lookup of a producer of encoder caches: the request's items, and which of them each candidate holds.
#[derive(Debug, Clone)]
pub struct EncoderLookup {
    /// The producer's name.
    pub plugin: Arc<str>,
    pub(crate) media: Vec<Media>,
    /// One row per candidate, with one entry per item.
    pub(super) has: Vec<bool>,
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
        float(self.count(candidate)) / float(self.media.len() as u64)
    }

    /// Returns the number of items that a candidate holds.
    pub(crate) fn count(&self, candidate: usize) -> u64 {
        let width = self.media.len();
        let row = self.has.get(candidate * width..(candidate + 1) * width).unwrap_or_default();
        row.iter().filter(|has| **has).count() as u64
    }
}
