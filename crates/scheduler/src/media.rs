//! The images, audio and videos of requests.

use xxhash_rust::xxh64::xxh64;

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
