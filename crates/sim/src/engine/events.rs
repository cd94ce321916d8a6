//! The events of the prefix cache: which blocks came and which went.

use std::ops::Range;

use longboat_engine_model::BlockHash;
use longboat_kv_events::{Event, Stored};
use longboat_serving::kv_events::Publisher;

/// The medium of all blocks in KV cache events.
const GPU: &str = "gpu";

/// Publishes which runs of blocks of a prompt were stored, each with the block before it, and which blocks were removed.
pub(super) fn publish(
    events: &Publisher,
    block_size: usize,
    (hashes, prompt): (&[BlockHash], &[u32]),
    added: &[Range<usize>],
    removed: Vec<BlockHash>,
) {
    let stored = |run: &Range<usize>| {
        Event::Stored(Box::new(Stored {
            hashes: hashes[run.clone()].to_vec(),
            parent: run.start.checked_sub(1).map(|before| hashes[before]),
            tokens: prompt[run.start * block_size..run.end * block_size].to_vec(),
            block_size,
            medium: GPU.to_owned(),
            ..Stored::default()
        }))
    };
    let stored: Vec<_> = added.iter().map(stored).collect();
    if !stored.is_empty() {
        events.publish(stored);
    }
    if !removed.is_empty() {
        events.publish(vec![Event::Removed { hashes: removed, medium: GPU.to_owned() }]);
    }
}
