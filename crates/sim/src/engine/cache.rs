//! The prefix cache: blocks of tokens with a fixed size, shared between requests, with least-recently-used eviction.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use longboat_kv_events::{Event, Stored};
use longboat_serving::kv_events::Publisher;
use xxhash_rust::xxh64::xxh64;

/// The hash of a block's tokens and of all tokens before them.
pub(crate) type BlockHash = u64;

/// The medium of all blocks in KV cache events.
const GPU: &str = "gpu";

#[derive(Debug)]
struct Block {
    users: usize,
    used_at: u64,
}

/// The blocks in memory, and the number of their users.
#[derive(Debug)]
pub(crate) struct KvCache {
    capacity: usize,
    block_size: usize,
    blocks: HashMap<BlockHash, Block>,
    /// Unused blocks by the time of their last use, which is the order of eviction.
    idle: BTreeMap<u64, BlockHash>,
    /// The number of used blocks that cannot be shared: partly filled blocks and blocks of generated tokens.
    private: usize,
    clock: u64,
    /// Publishes which blocks are stored and removed.
    events: Option<Arc<Publisher>>,
}

/// The blocks of one running request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestBlocks {
    pub(crate) blocks: Vec<BlockHash>,
    private: usize,
    /// Prompt tokens that were found in this engine's cache.
    pub(crate) own_tokens: usize,
    /// Further prompt tokens that were found in a storage.
    pub(crate) stored_tokens: usize,
}

// === impl Held ===

impl RequestBlocks {
    /// Prompt tokens that were found in a cache.
    pub(crate) fn cached_tokens(&self) -> usize {
        self.own_tokens + self.stored_tokens
    }
}

// === impl KvCache ===

impl KvCache {
    pub(crate) fn new(capacity: usize, block_size: usize, events: Option<Arc<Publisher>>) -> Self {
        Self {
            capacity,
            block_size,
            blocks: HashMap::new(),
            idle: BTreeMap::new(),
            private: 0,
            clock: 0,
            events,
        }
    }

    /// Takes the blocks of a prompt, and space for `generated` more tokens. Returns `None` if running requests leave too
    /// little space; then the request has to wait.
    ///
    /// The first `stored` blocks of the prompt are in a storage, so they count as cached even if they are not in this cache.
    pub(crate) fn take(&mut self, prompt: &[u32], generated: usize, stored: usize) -> Option<RequestBlocks> {
        let hashes = self.hashes(prompt);
        let hits = hashes.iter().take_while(|hash| self.blocks.contains_key(hash)).count();
        let private = (prompt.len() + generated).div_ceil(self.block_size) - hashes.len();
        // Idle blocks of the prompt itself cannot be evicted to make room for it, so they need space like missing ones.
        let wanted_idle =
            hashes[..hits].iter().filter(|hash| self.blocks.get(hash).is_some_and(|b| b.users == 0)).count();
        let free = self.capacity - self.in_use();
        if hashes.len() - hits + wanted_idle + private > free {
            return None;
        }
        // vLLM always computes at least the last token itself.
        let tokens = |blocks: usize| (blocks * self.block_size).min(prompt.len().saturating_sub(1));
        let own_tokens = tokens(hits);
        let stored_tokens = tokens(stored).saturating_sub(own_tokens);
        // Announced before the blocks are inserted, because `announce` reports those that are missing.
        self.announce(&hashes, prompt);
        for hash in &hashes {
            self.clock += 1;
            let block = self.blocks.entry(*hash).or_insert(Block { users: 0, used_at: 0 });
            if block.users == 0 {
                self.idle.remove(&block.used_at);
            }
            block.users += 1;
            block.used_at = self.clock;
        }
        self.private += private;
        // The new blocks are in use by now, so only blocks of other prompts are evicted.
        self.evict();
        Some(RequestBlocks { blocks: hashes, private, own_tokens, stored_tokens })
    }

    /// Returns the number of leading blocks of a prompt that are in the cache.
    pub(crate) fn prefix(&self, prompt: &[u32]) -> usize {
        self.hashes(prompt).iter().take_while(|hash| self.blocks.contains_key(hash)).count()
    }

    /// Releases all blocks of a request. Blocks that can be shared stay cached until their space is needed.
    pub(crate) fn release(&mut self, held: &RequestBlocks) {
        self.private -= held.private;
        for hash in &held.blocks {
            self.clock += 1;
            if let Some(block) = self.blocks.get_mut(hash) {
                block.users -= 1;
                block.used_at = self.clock;
                if block.users == 0 {
                    self.idle.insert(self.clock, *hash);
                }
            }
        }
        self.evict();
    }

    /// The share of the memory that running requests use, 0 to 1. This is vLLM's `kv_cache_usage_perc`.
    #[expect(clippy::cast_precision_loss, reason = "block counts are far below 2^52")]
    pub(crate) fn usage(&self) -> f64 {
        self.in_use() as f64 / self.capacity as f64
    }

    fn in_use(&self) -> usize {
        self.blocks.len() - self.idle.len() + self.private
    }

    fn evict(&mut self) {
        let mut gone = Vec::new();
        while self.blocks.len() + self.private > self.capacity {
            let Some((_, hash)) = self.idle.pop_first() else {
                break;
            };
            self.blocks.remove(&hash);
            gone.push(hash);
        }
        if let Some(events) = self.events.as_ref().filter(|_| !gone.is_empty()) {
            events.publish(vec![Event::Removed { hashes: gone, medium: GPU.to_owned() }]);
        }
    }

    /// Publishes which blocks of a prompt are about to be stored: each run of consecutive blocks with the block before it.
    fn announce(&self, hashes: &[BlockHash], prompt: &[u32]) {
        let Some(events) = &self.events else { return };
        let mut runs: Vec<Event> = Vec::new();
        let mut start = 0;
        while start < hashes.len() {
            let new = hashes[start..].iter().take_while(|hash| !self.blocks.contains_key(hash)).count();
            if new == 0 {
                start += 1;
                continue;
            }
            let end = start + new;
            runs.push(Event::Stored(Box::new(Stored {
                hashes: hashes[start..end].to_vec(),
                parent: start.checked_sub(1).map(|before| hashes[before]),
                tokens: prompt[start * self.block_size..end * self.block_size].to_vec(),
                block_size: self.block_size,
                medium: GPU.to_owned(),
                ..Stored::default()
            })));
            start = end;
        }
        events.publish(runs);
    }

    /// Returns the hashes of the full blocks of a prompt.
    pub(crate) fn hashes(&self, prompt: &[u32]) -> Vec<BlockHash> {
        let mut bytes = Vec::with_capacity(self.block_size * 4);
        let mut parent = 0;
        prompt
            .chunks_exact(self.block_size)
            .map(|block| {
                bytes.clear();
                bytes.extend(block.iter().flat_map(|token| token.to_le_bytes()));
                // The hash of a block covers all blocks before it: equal blocks after different prefixes are different.
                parent = xxh64(&bytes, parent);
                parent
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(start: u32, tokens: u32) -> Vec<u32> {
        (start..start + tokens).collect()
    }

    #[test]
    fn a_repeated_prefix_is_found_and_a_different_one_is_not() {
        let mut cache = KvCache::new(100, 16, None);
        let first = cache.take(&prompt(0, 64), 0, 0).unwrap();
        assert_eq!(first.cached_tokens(), 0);
        cache.release(&first);
        assert_eq!(cache.usage().to_bits(), 0f64.to_bits());
        let longer = cache.take(&prompt(0, 100), 0, 0).unwrap();
        assert_eq!(longer.cached_tokens(), 64);
        assert_eq!(cache.take(&prompt(1, 64), 0, 0).unwrap().cached_tokens(), 0);
        assert_eq!(cache.take(&prompt(0, 64), 0, 0).unwrap().cached_tokens(), 63);
    }

    #[test]
    fn running_requests_fill_the_memory_and_make_others_wait() {
        let mut cache = KvCache::new(4, 16, None);
        let held = cache.take(&prompt(0, 40), 10, 0).unwrap();
        assert!((cache.usage() - 1.0).abs() < f64::EPSILON);
        assert_eq!(cache.take(&prompt(500, 16), 0, 0), None);
        cache.release(&held);
        assert!(cache.take(&prompt(500, 64), 0, 0).is_some());
    }

    #[test]
    fn the_least_recently_used_blocks_make_room() {
        let mut cache = KvCache::new(4, 16, None);
        for start in [0, 1000] {
            let held = cache.take(&prompt(start, 32), 0, 0).unwrap();
            cache.release(&held);
        }
        let again = cache.take(&prompt(0, 32), 0, 0).unwrap();
        cache.release(&again);
        let newcomer = cache.take(&prompt(2000, 32), 0, 0).unwrap();
        cache.release(&newcomer);
        assert_eq!(cache.take(&prompt(0, 32), 0, 0).unwrap().cached_tokens(), 31);
        assert_eq!(cache.take(&prompt(1000, 32), 0, 0).unwrap().cached_tokens(), 0);
    }
}
