//! The events of an engine's prefix cache.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

use crate::msgpack::MsgpackError;

/// The medium on which engines first store a prompt, and that of events that name none.
pub const GPU: &str = "gpu";

/// A payload: events in their order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    /// Seconds since 1970, by the engine's clock.
    pub timestamp: f64,
    /// The events.
    pub events: Vec<Event>,
    /// The data-parallel rank of the events, if there are several.
    pub rank: Option<u64>,
    /// The number of events of unknown kinds.
    pub unknown: usize,
}

/// A change of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Blocks are now in the cache.
    Stored(Box<Stored>),
    /// Blocks are no longer in the cache.
    Removed {
        /// The engine's own hashes of the blocks.
        hashes: Vec<u64>,
        /// The medium in lower case; `gpu` if the engine does not name it.
        medium: String,
    },
    /// The cache is empty.
    Cleared,
}

/// Stored blocks with consecutive tokens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stored {
    /// The engine's own hash of each block. If a hash is a byte string, its last eight bytes count.
    pub hashes: Vec<u64>,
    /// The hash of the block before the first one; `None` at the start of a prompt.
    pub parent: Option<u64>,
    /// The tokens of all blocks together.
    pub tokens: Vec<u32>,
    /// The number of tokens per block.
    pub block_size: usize,
    /// The adapter's number, for engines that do not send its name.
    pub lora_id: Option<u64>,
    /// The adapter's name.
    pub lora_name: Option<String>,
    /// The medium in lower case; `gpu` if the engine does not name it.
    pub medium: String,
    /// For each block, the keys that distinguish it from other blocks with the same tokens: cache salt, images. Empty if the
    /// engine sends none. The adapter's name is not included.
    pub extra: Vec<Vec<ExtraKey>>,
}

/// A key that distinguishes a block from other blocks with the same tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtraKey {
    /// A text: a cache salt, or the hash of an image.
    Text(String),
    /// Any other value in its encoded form.
    Other(Vec<u8>),
}

/// Why a payload cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// It is not msgpack, or has another structure.
    #[error("malformed KV event: {0}")]
    Malformed(#[from] MsgpackError),
    /// A field is missing.
    #[error("malformed KV event: {event} has no {field}")]
    Missing {
        /// The kind of the event.
        event: &'static str,
        /// The missing field.
        field: &'static str,
    },
    /// A limit is exceeded.
    #[error("a KV event payload has more than {limit} {what}")]
    TooMany {
        /// The limited item.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}
