//! The prefix cache: blocks of tokens with a fixed size, shared between requests, with least-recently-used eviction.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use ahash::AHashMap;
use xxhash_rust::xxh64::xxh64;

/// The hash of a block's tokens and of all tokens before them.
pub type BlockHash = u64;

#[derive(Debug)]
struct Block {
    users: usize,
    used_at: u64,
}

/// The blocks in memory, and the number of their users.
#[derive(Debug)]
pub struct KvCache {
    capacity: usize,
    block_size: usize,
    blocks: AHashMap<BlockHash, Block>,
    /// Unused blocks by the time of their last use, which is the order of eviction.
    idle: BTreeMap<u64, BlockHash>,
    /// The number of used blocks that cannot be shared: partly filled blocks and blocks of generated tokens.
    private: usize,
    clock: u64,
}

/// The blocks of one running request.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RequestBlocks {
    /// The full blocks of its prompt.
    pub blocks: Arc<[BlockHash]>,
    private: usize,
    /// Prompt tokens that were found in this engine's cache.
    pub own_tokens: usize,
    /// Further prompt tokens that were found in a storage.
    pub stored_tokens: usize,
}

/// The blocks that a request has taken, and how the cache has changed.
#[derive(Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The request's blocks.
    pub held: RequestBlocks,
    /// Runs of consecutive blocks of the prompt that were not in the cache before.
    pub added: Vec<Range<usize>>,
    /// Blocks of other prompts that made room.
    pub evicted: Vec<BlockHash>,
}

// === impl RequestBlocks ===

impl RequestBlocks {
    /// Prompt tokens that were found in a cache.
    pub fn cached_tokens(&self) -> usize {
        self.own_tokens + self.stored_tokens
    }
}

// === impl KvCache ===

impl KvCache {
    /// Creates an empty cache.
    pub fn new(capacity: usize, block_size: usize) -> Self {
        Self { capacity, block_size, blocks: AHashMap::new(), idle: BTreeMap::new(), private: 0, clock: 0 }
    }

    /// Takes the blocks of a prompt with these hashes and this length, and space for `generated` more tokens. Returns `None`
    /// if running requests leave too little space; then the request has to wait.
    ///
    /// The first `stored` blocks of the prompt are in a storage, so they count as cached even if they are not in this cache.
    pub fn take(
        &mut self,
        hashes: &Arc<[BlockHash]>,
        prompt_tokens: usize,
        generated: usize,
        stored: usize,
    ) -> Option<Allocation> {
        let hits = self.prefix(hashes);
        let private = (prompt_tokens + generated).div_ceil(self.block_size) - hashes.len();
        // Idle blocks of the prompt itself cannot be evicted to make room for it, so they need space like missing ones.
        let wanted_idle =
            hashes[..hits].iter().filter(|hash| self.blocks.get(hash).is_some_and(|b| b.users == 0)).count();
        let free = self.capacity.saturating_sub(self.in_use());
        if hashes.len() - hits + wanted_idle + private > free {
            return None;
        }
        // vLLM always computes at least the last token itself.
        let tokens = |blocks: usize| (blocks * self.block_size).min(prompt_tokens.saturating_sub(1));
        let own_tokens = tokens(hits);
        let stored_tokens = tokens(stored).saturating_sub(own_tokens);
        let mut added: Vec<Range<usize>> = Vec::new();
        for (index, hash) in hashes.iter().enumerate() {
            self.clock += 1;
            let block = self.blocks.entry(*hash).or_insert_with(|| {
                match added.last_mut().filter(|run| run.end == index) {
                    Some(run) => run.end += 1,
                    None => added.push(index..index + 1),
                }
                // No block was ever used at 0, so nothing is removed from the idle ones below.
                Block { users: 0, used_at: 0 }
            });
            if block.users == 0 {
                self.idle.remove(&block.used_at);
            }
            block.users += 1;
            block.used_at = self.clock;
        }
        self.private += private;
        // The new blocks are in use by now, so only blocks of other prompts are evicted.
        let evicted = self.evict();
        let held = RequestBlocks { blocks: Arc::clone(hashes), private, own_tokens, stored_tokens };
        Some(Allocation { held, added, evicted })
    }

    /// Returns the number of leading blocks of a prompt that are in the cache.
    pub fn prefix(&self, hashes: &[BlockHash]) -> usize {
        hashes.iter().take_while(|hash| self.blocks.contains_key(hash)).count()
    }

    /// Releases all blocks of a request. Blocks that can be shared stay cached until their space is needed.
    pub fn release(&mut self, held: &RequestBlocks) {
        self.private -= held.private;
        for hash in held.blocks.iter() {
            self.clock += 1;
            if let Some(block) = self.blocks.get_mut(hash) {
                block.users -= 1;
                block.used_at = self.clock;
                if block.users == 0 {
                    self.idle.insert(self.clock, *hash);
                }
            }
        }
    }

    /// The share of the memory that running requests use, 0 to 1. This is vLLM's `kv_cache_usage_perc`.
    #[expect(clippy::cast_precision_loss, reason = "block counts are far below 2^52")]
    pub fn usage(&self) -> f64 {
        self.in_use() as f64 / self.capacity.max(1) as f64
    }

    fn in_use(&self) -> usize {
        self.blocks.len() - self.idle.len() + self.private
    }

    fn evict(&mut self) -> Vec<BlockHash> {
        let mut gone = Vec::new();
        while self.blocks.len() + self.private > self.capacity {
            let Some((_, hash)) = self.idle.pop_first() else {
                break;
            };
            self.blocks.remove(&hash);
            gone.push(hash);
        }
        gone
    }
}

/// Returns the hashes of the full blocks of a prompt. The prompt consists of the little-endian bytes of its tokens.
pub fn block_hashes(prompt: &[u8], block_size: usize) -> Arc<[BlockHash]> {
    let mut parent = 0;
    let hash = |block: &[u8]| {
        // The hash of a block covers all blocks before it: equal blocks after different prefixes are different.
        parent = xxh64(block, parent);
        parent
    };
    prompt.chunks_exact(block_size.saturating_mul(4)).map(hash).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A prompt of consecutive tokens.
    struct Prompt(Arc<[BlockHash]>, usize);

    fn prompt(start: u32, tokens: u32) -> Prompt {
        let bytes: Vec<u8> = (start..start + tokens).flat_map(u32::to_le_bytes).collect();
        Prompt(block_hashes(&bytes, 16), tokens as usize)
    }

    fn take(cache: &mut KvCache, prompt: &Prompt, generated: usize) -> Option<RequestBlocks> {
        cache.take(&prompt.0, prompt.1, generated, 0).map(|taken| taken.held)
    }

    #[test]
    fn a_repeated_prefix_is_found_and_a_different_one_is_not() {
        let mut cache = KvCache::new(100, 16);
        let first = take(&mut cache, &prompt(0, 64), 0).unwrap();
        assert_eq!(first.cached_tokens(), 0);
        cache.release(&first);
        assert_eq!(cache.usage().to_bits(), 0f64.to_bits());
        let longer = take(&mut cache, &prompt(0, 100), 0).unwrap();
        assert_eq!(longer.cached_tokens(), 64);
        assert_eq!(take(&mut cache, &prompt(1, 64), 0).unwrap().cached_tokens(), 0);
        assert_eq!(take(&mut cache, &prompt(0, 64), 0).unwrap().cached_tokens(), 63);
    }

    #[test]
    fn running_requests_fill_the_memory_and_make_others_wait() {
        let mut cache = KvCache::new(4, 16);
        let held = take(&mut cache, &prompt(0, 40), 10).unwrap();
        assert!((cache.usage() - 1.0).abs() < f64::EPSILON);
        assert_eq!(take(&mut cache, &prompt(500, 16), 0), None);
        cache.release(&held);
        assert!(take(&mut cache, &prompt(500, 64), 0).is_some());
    }

    #[test]
    fn the_least_recently_used_blocks_make_room() {
        let mut cache = KvCache::new(4, 16);
        for start in [0, 1000] {
            let held = take(&mut cache, &prompt(start, 32), 0).unwrap();
            cache.release(&held);
        }
        let again = take(&mut cache, &prompt(0, 32), 0).unwrap();
        cache.release(&again);
        let newcomer = take(&mut cache, &prompt(2000, 32), 0).unwrap();
        cache.release(&newcomer);
        assert_eq!(take(&mut cache, &prompt(0, 32), 0).unwrap().cached_tokens(), 31);
        assert_eq!(take(&mut cache, &prompt(1000, 32), 0).unwrap().cached_tokens(), 0);
    }

    #[test]
    fn an_allocation_tells_which_blocks_came_and_which_went() {
        let mut cache = KvCache::new(4, 16);
        let first = cache.take(&prompt(0, 32).0, 32, 0, 0).unwrap();
        assert_eq!((first.added, first.evicted), (std::iter::once(0..2).collect(), vec![]));
        cache.release(&first.held);
        let longer = cache.take(&prompt(0, 48).0, 48, 0, 0).unwrap();
        assert_eq!((longer.added, longer.evicted), (std::iter::once(2..3).collect(), vec![]));
        cache.release(&longer.held);
        let other = prompt(1000, 32);
        let newcomer = cache.take(&other.0, 32, 0, 0).unwrap();
        assert_eq!(
            (newcomer.added, newcomer.evicted),
            (std::iter::once(0..2).collect(), vec![longer.held.blocks[0]])
        );
    }
}
