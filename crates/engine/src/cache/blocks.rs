//! Manages the blocks of the KV cache: the used ones, the free ones, and the free ones that still hold a cached prefix.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher, RandomState},
    sync::{Arc, LazyLock},
};

use longboat_kv_events::{Event, GPU, Stored};
use longboat_serving::kv_events::Publisher;

use crate::lora::Adapter;

/// A block of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block(u32);

/// The secret key of this process's hashes. Blocks are found by their hash alone, so nobody may be able to make other tokens that
/// have the hash of somebody else's prompt.
static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Hash of the tokens of a full block and of all tokens before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Hash(u64);

#[derive(Debug, Clone, Default)]
struct State {
    users: u32,
    hash: Option<Hash>,
    /// The number of the adapter that has computed the content.
    adapter: Option<u64>,
    /// The key of the block in `Blocks::free`.
    freed: u64,
}

/// All blocks of the cache.
#[derive(Debug)]
pub(crate) struct Blocks {
    states: Vec<State>,
    /// The free blocks. The one that was freed first comes first.
    free: BTreeMap<u64, Block>,
    by_hash: HashMap<Hash, Block>,
    clock: u64,
    size: usize,
    caches_prefixes: bool,
    /// Publishes which blocks are cached and which are evicted.
    events: Option<Arc<Publisher>>,
}

// === impl Block ===

impl Block {
    /// All blocks of a cache that serves only one sequence at a time.
    pub(crate) fn all(count: usize) -> Vec<Self> {
        (0..u32::try_from(count).unwrap_or(u32::MAX)).map(Self).collect()
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

// === impl Hash ===

impl Hash {
    /// Returns the parent hash of the first block. Each adapter has its own, and the model alone has none, so their blocks
    /// are never mixed up.
    pub(crate) fn root(adapter: Option<u64>) -> Option<Self> {
        adapter.map(|number| Self(KEY.hash_one(number)))
    }

    /// Computes the hash of a full block that follows `parent`.
    pub(crate) fn of(parent: Option<Self>, tokens: &[u32]) -> Self {
        Self(KEY.hash_one((parent, tokens)))
    }
}

// === impl Blocks ===

impl Blocks {
    /// Creates `count` free blocks of `size` tokens.
    pub(crate) fn new(
        count: usize,
        size: usize,
        caches_prefixes: bool,
        events: Option<Arc<Publisher>>,
    ) -> Self {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            states: vec![State::default(); count as usize],
            free: (0..count).map(|index| (u64::from(index), Block(index))).collect(),
            by_hash: HashMap::new(),
            clock: u64::from(count),
            size,
            caches_prefixes,
            events,
        }
    }

    /// The number of tokens per block.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Whether blocks are found again by their tokens.
    pub(crate) fn caches_prefixes(&self) -> bool {
        self.caches_prefixes
    }

    /// The number of free blocks.
    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    /// Whether no sequence uses this block.
    pub(crate) fn is_free(&self, block: Block) -> bool {
        self.states[block.index()].users == 0
    }

    /// The used share of the blocks, from 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "a share for a graph")]
    pub(crate) fn usage(&self) -> f64 {
        let all = self.states.len().max(1) as f64;
        1.0 - self.free.len() as f64 / all
    }

    /// Returns the cached blocks at the start of these tokens, which follow `root`. At least one token is left to compute,
    /// because the last token predicts the next one.
    pub(crate) fn cached(&self, root: Option<Hash>, tokens: &[u32]) -> Vec<Block> {
        let mut found = Vec::new();
        let mut parent = root;
        if !self.caches_prefixes {
            return found;
        }
        for block in tokens[..tokens.len().saturating_sub(1)].chunks_exact(self.size) {
            let hash = Hash::of(parent, block);
            let Some(block) = self.by_hash.get(&hash) else { break };
            found.push(*block);
            parent = Some(hash);
        }
        found
    }

    /// Adds a user to a block.
    pub(crate) fn share(&mut self, block: Block) {
        let state = &mut self.states[block.index()];
        if state.users == 0 {
            self.free.remove(&state.freed);
        }
        state.users += 1;
    }

    /// Takes the block that has been free for longest, and evicts its content.
    pub(crate) fn take(&mut self) -> Option<Block> {
        let (_, block) = self.free.pop_first()?;
        let state = &mut self.states[block.index()];
        state.users = 1;
        let hash = state.hash.take();
        self.removed(hash.into_iter().collect());
        Some(block)
    }

    /// Evicts the content that an adapter has computed.
    pub(crate) fn evict_adapter(&mut self, number: u64) {
        let states = self.states.iter_mut().filter(|state| state.adapter == Some(number));
        let hashes = states.filter_map(|state| state.hash.take()).collect();
        self.removed(hashes);
    }

    /// Forgets and publishes that these blocks are no longer cached.
    fn removed(&mut self, hashes: Vec<Hash>) {
        for hash in &hashes {
            self.by_hash.remove(hash);
        }
        if let Some(events) = self.events.as_ref().filter(|_| !hashes.is_empty()) {
            let hashes = hashes.into_iter().map(|hash| hash.0).collect();
            events.publish(vec![Event::Removed { hashes, medium: GPU.to_owned() }]);
        }
    }

    /// Removes a user from a block. The content of a free block stays cached until the block is taken.
    pub(crate) fn release(&mut self, block: Block) {
        let state = &mut self.states[block.index()];
        state.users -= 1;
        if state.users == 0 {
            state.freed = self.clock;
            self.free.insert(self.clock, block);
            self.clock += 1;
        }
    }

    /// Records that consecutive blocks, after the block `parent`, hold these tokens of a sequence with this adapter. Returns the
    /// hash of the last block. If several blocks hold the same prefix, only the first one is found later.
    pub(crate) fn filled(
        &mut self,
        adapter: Option<&Adapter>,
        parent: Option<Hash>,
        blocks: &[Block],
        tokens: &[u32],
    ) -> Option<Hash> {
        let (last, runs) =
            self.fill(adapter.map(|adapter| (adapter.number, adapter.name.as_str())), parent, blocks, tokens);
        if let Some(events) = &self.events {
            events.publish(runs.into_iter().map(|run| Event::Stored(Box::new(run))).collect());
        }
        last
    }

    /// Like [`Self::filled`], with the number and the name of the adapter. Returns the event of each run of new blocks.
    fn fill(
        &mut self,
        adapter: Option<(u64, &str)>,
        parent: Option<Hash>,
        blocks: &[Block],
        tokens: &[u32],
    ) -> (Option<Hash>, Vec<Stored>) {
        let root = Hash::root(adapter.map(|(number, _)| number));
        let mut last = parent;
        let mut runs: Vec<Stored> = Vec::new();
        let mut follows = false;
        for (block, tokens) in blocks.iter().zip(tokens.chunks_exact(self.size)) {
            let before = last;
            let hash = Hash::of(before, tokens);
            last = Some(hash);
            if !self.caches_prefixes || self.by_hash.contains_key(&hash) {
                follows = false;
                continue;
            }
            self.by_hash.insert(hash, *block);
            let state = &mut self.states[block.index()];
            (state.hash, state.adapter) = (Some(hash), adapter.map(|(number, _)| number));
            if self.events.is_none() {
                continue;
            }
            if !follows {
                runs.push(Stored {
                    // As in vLLM, the first block of a prompt has no parent, and the name tells the adapter's blocks from those
                    // of the model. Pickers drop blocks whose parent they do not know.
                    parent: before.filter(|before| Some(*before) != root).map(|before| before.0),
                    lora_name: adapter.map(|(_, name)| name.to_owned()),
                    block_size: self.size,
                    medium: GPU.to_owned(),
                    ..Stored::default()
                });
                follows = true;
            }
            if let Some(run) = runs.last_mut() {
                run.hashes.push(hash.0);
                run.tokens.extend(tokens);
            }
        }
        (last, runs)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_released_prefix_is_found_until_its_block_is_taken() {
        let mut blocks = Blocks::new(2, 2, true, None);
        let first = blocks.take().unwrap();
        let hash = blocks.filled(None, None, &[first], &[1, 2]);
        assert_eq!(hash, Some(Hash::of(None, &[1, 2])));
        assert_eq!(blocks.cached(None, &[1, 2]), [], "one token is left to compute");
        assert_eq!(blocks.cached(None, &[1, 2, 3]), [first]);
        assert_eq!(blocks.cached(Hash::root(Some(1)), &[1, 2, 3]), [], "an adapter computes other keys");
        blocks.release(first);
        let second = blocks.take().unwrap();
        assert_ne!(second, first, "what was freed last is taken last");
        assert_eq!(blocks.cached(None, &[1, 2, 3]), [first]);
        assert_eq!(blocks.take(), Some(first));
        assert_eq!(blocks.cached(None, &[1, 2, 3]), []);
        assert_eq!(blocks.take(), None);
    }

    /// With XXH64, whose steps can be undone, the second word of a block can take back what the first one changed.
    #[test]
    fn tokens_cannot_be_made_to_have_the_hash_of_others() {
        const PRIMES: [u64; 2] = [0x9E37_79B1_85EB_CA87, 0xC2B2_AE3D_27D4_EB4F];
        // Newton's iteration doubles the correct bits of the inverse each time.
        let inverse = (0..6).fold(1_u64, |inverse, _| {
            inverse.wrapping_mul(2_u64.wrapping_sub(PRIMES[1].wrapping_mul(inverse)))
        });
        let start = PRIMES[0].wrapping_add(PRIMES[1]);
        let step = |sum: u64, word: u64| {
            sum.wrapping_add(word.wrapping_mul(PRIMES[1])).rotate_left(31).wrapping_mul(PRIMES[0])
        };
        let block = |first: u64| {
            let second = step(start, 0).wrapping_sub(step(start, first)).wrapping_mul(inverse);
            // A word is two tokens, and a lane gets each fourth word.
            let words = [first, 0, 0, 0, second, 0, 0, 0];
            words
                .map(|word| [word & 0xffff_ffff, word >> 32].map(|half| u32::try_from(half).unwrap()))
                .concat()
        };
        assert_ne!(Hash::of(None, &block(0)), Hash::of(None, &block(1)));
    }

    #[test]
    fn events_name_the_adapter_of_blocks_and_the_first_block_has_no_parent() {
        let settings = r#"{"enable_kv_cache_events": true}"#.parse().unwrap();
        let mut blocks = Blocks::new(4, 1, true, Publisher::new(settings));
        let first_three: Vec<Block> = (0..3).map(|_| blocks.take().unwrap()).collect();
        let (first, runs) = blocks.fill(Some((7, "poet")), Hash::root(Some(7)), &first_three[..2], &[5, 6]);
        let name = Some("poet".to_owned());
        assert_eq!((runs.len(), runs[0].parent, &runs[0].lora_name), (1, None, &name));
        let (_, runs) = blocks.fill(Some((7, "poet")), first, &first_three[2..], &[7]);
        assert_eq!((runs[0].parent, &runs[0].lora_name), (first.map(|first| first.0), &name));
        let events = blocks.events.clone().unwrap();
        for (number, published) in [(8, 0), (7, 1), (7, 1)] {
            blocks.evict_adapter(number);
            assert_eq!(events.published(), published, "adapter {number}");
        }
    }

    proptest! {
        #[test]
        fn blocks_are_free_or_used_and_never_both(steps in prop::collection::vec(0_u8..4, 1..200)) {
            let mut blocks = Blocks::new(8, 1, true, None);
            let mut held: Vec<Block> = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    0 => held.extend(blocks.take()),
                    1 => if let Some(block) = held.pop() { blocks.release(block); },
                    2 => if let Some(block) = held.first().copied() { blocks.share(block); held.push(block); },
                    _ => if let Some(block) = held.last() {
                        blocks.filled(None, None, &[*block], &[u32::try_from(number).unwrap()]);
                    },
                }
                let mut used: Vec<usize> = held.iter().map(|block| block.index()).collect();
                used.sort_unstable();
                used.dedup();
                prop_assert_eq!(used.len() + blocks.free(), 8);
            }
        }
    }
}
