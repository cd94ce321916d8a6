//! The prefix cache: blocks of tokens with a fixed size, shared between requests, with least-recently-used eviction.

mod runs;

use std::{ops::Range, sync::Arc};

use xxhash_rust::xxh64::xxh64;

use self::runs::Runs;

/// The hash of a block's tokens and of all tokens before them.
pub type BlockHash = u64;

/// The factor of the hash before in a block's hash: any large odd number.
const LINK: u64 = 0x9e37_79b9_7f4a_7c15;

/// The blocks in memory, and who uses them.
#[derive(Debug)]
pub struct KvCache {
    capacity: usize,
    block_size: usize,
    runs: Runs,
    /// The number of used blocks that cannot be shared: partly filled blocks and blocks of generated tokens.
    private: usize,
}

/// The blocks of one running request.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RequestBlocks {
    /// The full blocks of its prompt.
    pub blocks: Arc<[BlockHash]>,
    /// The run of blocks in the cache that ends with the last of them.
    last_run: Option<usize>,
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
    /// The blocks of the prompt that were not in the cache before.
    pub added: Range<usize>,
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
        Self { capacity, block_size, runs: Runs::default(), private: 0 }
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
        // A block that the prompt does not fill, and those of the answer, have no hash by which other requests could find them.
        let private = (prompt_tokens + generated).div_ceil(self.block_size) - hashes.len();
        // Idle blocks count as free, because they can be evicted.
        let free = self.capacity.saturating_sub(self.in_use());
        if private > free {
            return None;
        }
        let path: Vec<_> = self.runs.path(hashes).collect();
        let hits = path.last().map_or(0, |(_, range)| range.end);
        let idle_hits: usize =
            path.iter().filter(|(id, _)| self.runs.is_idle(*id)).map(|(_, range)| range.len()).sum();
        // Idle blocks of the prompt itself cannot be evicted to make room for it, so they need space like missing ones.
        if hashes.len() - hits + idle_hits + private > free {
            return None;
        }
        // vLLM always computes at least the last token itself.
        let tokens = |blocks: usize| (blocks * self.block_size).min(prompt_tokens.saturating_sub(1));
        let own_tokens = tokens(hits);
        let stored_tokens = tokens(stored).saturating_sub(own_tokens);
        let (last_run, added) = self.runs.take(hashes, path);
        self.private += private;
        // The new blocks are in use by now, so only blocks of other prompts are evicted.
        let evicted = self.runs.evict((self.runs.blocks() + self.private).saturating_sub(self.capacity));
        let held = RequestBlocks { blocks: Arc::clone(hashes), last_run, private, own_tokens, stored_tokens };
        Some(Allocation { held, added, evicted })
    }

    /// Returns the number of leading blocks of a prompt that are in the cache.
    pub fn prefix(&self, hashes: &[BlockHash]) -> usize {
        self.runs.path(hashes).last().map_or(0, |(_, range)| range.end)
    }

    /// Releases all blocks of a request. Blocks that can be shared stay cached until their space is needed.
    pub fn release(&mut self, held: &RequestBlocks) {
        self.private -= held.private;
        self.runs.release(held.last_run);
    }

    /// The share of the memory that running requests use, 0 to 1. This is vLLM's `kv_cache_usage_perc`.
    #[expect(clippy::cast_precision_loss, reason = "block counts are far below 2^52")]
    pub fn usage(&self) -> f64 {
        self.in_use() as f64 / self.capacity.max(1) as f64
    }

    fn in_use(&self) -> usize {
        self.runs.used_blocks() + self.private
    }
}

/// Returns the hashes of the full blocks of a prompt. The prompt consists of the little-endian bytes of its tokens.
pub fn block_hashes(prompt: &[u8], block_size: usize) -> Arc<[BlockHash]> {
    further_block_hashes(&[], prompt, block_size)
}

/// Like [`block_hashes`], for a prompt whose first hashes are known.
pub fn further_block_hashes(known: &[BlockHash], prompt: &[u8], block_size: usize) -> Arc<[BlockHash]> {
    let mut parent = known.last().copied().unwrap_or_default();
    let hash = |block: &[u8]| {
        // The hash of a block covers all blocks before it: equal blocks after different prefixes are different. With the hash before as
        // a seed, the processor could not compute the hashes of several blocks at once.
        parent = parent.wrapping_mul(LINK).wrapping_add(xxh64(block, 0));
        parent
    };
    let block_bytes = block_size.saturating_mul(4);
    let further = prompt[known.len() * block_bytes..].chunks_exact(block_bytes).map(hash);
    known.iter().copied().chain(further).collect()
}

#[cfg(test)]
mod tests;
