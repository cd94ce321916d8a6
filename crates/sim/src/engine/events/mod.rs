//! The events of the prefix cache: which blocks came and which went.

use std::ops::Range;

use longboat_engine_model::BlockHash;
use longboat_kv_events::{Event, GPU, Stored};
use longboat_serving::kv_events::Publisher;

/// Publishes which blocks of a prompt were stored, with the block before them, and which blocks were removed.
pub(super) fn publish(
    events: &Publisher,
    block_size: usize,
    (hashes, prompt): (&[BlockHash], &[u32]),
    added: Range<usize>,
    removed: Vec<BlockHash>,
) {
    if !added.is_empty() {
        events.publish(vec![Event::Stored(Box::new(Stored {
            parent: added.start.checked_sub(1).map(|before| hashes[before]),
            tokens: prompt[added.start * block_size..added.end * block_size].to_vec(),
            hashes: hashes[added].to_vec(),
            block_size,
            medium: GPU.to_owned(),
            ..Stored::default()
        }))]);
    }
    if !removed.is_empty() {
        events.publish(vec![Event::Removed { hashes: removed, medium: GPU.to_owned() }]);
    }
}

#[cfg(test)]
mod tests;
