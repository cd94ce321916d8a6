use std::{collections::BTreeMap, ops::Range, sync::Arc};

use ahash::AHashMap;
use proptest::prelude::*;

use super::*;

/// A prompt of consecutive tokens.
struct Prompt(Arc<[BlockHash]>, usize);

fn prompt(start: u32, tokens: u32) -> Prompt {
    let bytes: Vec<u8> = (start..start + tokens).flat_map(u32::to_le_bytes).collect();
    Prompt(block_hashes(&bytes, 16), tokens as usize)
}

fn take(cache: &mut KvCache, prompt: &Prompt, generated: usize) -> Option<RequestBlocks> {
    cache.take(&prompt.0, prompt.1, generated, 0).map(|allocation| allocation.held)
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
    assert_eq!((first.added, first.evicted), (0..2, vec![]));
    cache.release(&first.held);
    let longer = cache.take(&prompt(0, 48).0, 48, 0, 0).unwrap();
    assert_eq!((longer.added, longer.evicted), (2..3, vec![]));
    cache.release(&longer.held);
    let other = prompt(1000, 32);
    let newcomer = cache.take(&other.0, 32, 0, 0).unwrap();
    // The end of a prompt is of no use without its start, so it goes first.
    assert_eq!((newcomer.added, newcomer.evicted), (0..2, vec![longer.held.blocks[2]]));
}

/// A cache that keeps each block by itself.
#[derive(Debug, Default)]
struct SingleBlocks {
    capacity: usize,
    block_size: usize,
    /// The users of each block, and the time of its last use.
    blocks: AHashMap<BlockHash, (usize, u64)>,
    /// Unused blocks by the time of their last use.
    idle: BTreeMap<u64, BlockHash>,
    private: usize,
    clock: u64,
}

/// What a request holds: its blocks, and how many more that cannot be shared.
type Held = (Arc<[BlockHash]>, usize);

/// What an allocation tells: tokens in this cache and in the storage, the new blocks, and those that made room.
type AllocationFacts = (usize, usize, Range<usize>, Vec<BlockHash>);

impl SingleBlocks {
    fn take(
        &mut self,
        hashes: &Arc<[BlockHash]>,
        tokens: usize,
        generated: usize,
        stored: usize,
    ) -> Option<(Held, AllocationFacts)> {
        let hits = self.prefix(hashes);
        let private = (tokens + generated).div_ceil(self.block_size) - hashes.len();
        let idle_hits = hashes[..hits].iter().filter(|hash| self.blocks[hash].0 == 0).count();
        if hashes.len() - hits + idle_hits + private > self.capacity.saturating_sub(self.in_use()) {
            return None;
        }
        let cached = |blocks: usize| (blocks * self.block_size).min(tokens.saturating_sub(1));
        let own = cached(hits);
        let from_storage = cached(stored).saturating_sub(own);
        // The end of a prompt is evicted before its start, so all blocks after the first missing one are missing.
        let added = hits..hashes.len();
        for (index, hash) in hashes.iter().enumerate() {
            assert_eq!(self.blocks.contains_key(hash), index < hits);
            let (users, used_at) = self.blocks.entry(*hash).or_default();
            if *users == 0 {
                self.idle.remove(used_at);
            }
            *users += 1;
        }
        self.private += private;
        let mut evicted = Vec::new();
        while self.blocks.len() + self.private > self.capacity
            && let Some((_, hash)) = self.idle.pop_first()
        {
            self.blocks.remove(&hash);
            evicted.push(hash);
        }
        Some(((Arc::clone(hashes), private), (own, from_storage, added, evicted)))
    }

    fn prefix(&self, hashes: &[BlockHash]) -> usize {
        hashes.iter().take_while(|hash| self.blocks.contains_key(hash)).count()
    }

    fn release(&mut self, (hashes, private): &Held) {
        self.private -= private;
        for hash in hashes.iter().rev() {
            self.clock += 1;
            let (users, used_at) = self.blocks.get_mut(hash).unwrap();
            *users -= 1;
            *used_at = self.clock;
            if *users == 0 {
                self.idle.insert(self.clock, *hash);
            }
        }
    }

    fn in_use(&self) -> usize {
        self.blocks.len() - self.idle.len() + self.private
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// A prompt of these letters, one for each block, with further tokens, tokens of the answer and blocks in a storage.
    Take(Vec<u8>, usize, usize, usize),
    /// One of the running requests ends.
    Release(prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few letters, the first of them likely: prompts share a lot, and part in many places.
    let letter = prop_oneof![4 => Just(0_u8), 1 => 1..4_u8];
    let take = (prop::collection::vec(letter, 0..12), 0..3_usize, 0..6_usize, 0..12_usize)
        .prop_map(|(letters, further, generated, stored)| Step::Take(letters, further, generated, stored));
    let step = prop_oneof![3 => take, 2 => any::<prop::sample::Index>().prop_map(Step::Release)];
    prop::collection::vec(step, 1..120)
}

/// The blocks of a prompt: each stands for all letters up to it.
fn chained(letters: &[u8]) -> Arc<[BlockHash]> {
    let chain = |prefix: &mut u64, letter: &u8| {
        *prefix = *prefix * 4 + u64::from(*letter);
        Some(*prefix)
    };
    letters.iter().scan(1, chain).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// After any sequence of requests, all is as in a cache that keeps each block by itself.
    #[test]
    fn runs_match_a_cache_of_single_blocks(capacity in 1..40_usize, block_size in 1..4_usize, steps in steps()) {
        let mut cache = KvCache::new(capacity, block_size);
        let mut single = SingleBlocks { capacity, block_size, ..SingleBlocks::default() };
        let mut held = Vec::new();
        for step in steps {
            match step {
                Step::Take(letters, further, generated, stored) => {
                    let hashes = chained(&letters);
                    let tokens = hashes.len() * block_size + further.min(block_size - 1);
                    prop_assert_eq!(cache.prefix(&hashes), single.prefix(&hashes));
                    let allocation = cache.take(&hashes, tokens, generated, stored);
                    let expected = single.take(&hashes, tokens, generated, stored);
                    let allocated = allocation.as_ref().map(|Allocation { held, added, evicted }| {
                        (held.own_tokens, held.stored_tokens, added.clone(), evicted.clone())
                    });
                    prop_assert_eq!(allocated, expected.as_ref().map(|(_, allocated)| allocated.clone()));
                    held.extend(allocation.map(|allocation| allocation.held).zip(expected.map(|(held, _)| held)));
                }
                Step::Release(index) if !held.is_empty() => {
                    let (own, expected) = held.swap_remove(index.index(held.len()));
                    cache.release(&own);
                    single.release(&expected);
                }
                Step::Release(_) => {}
            }
            cache.runs.check();
            prop_assert_eq!(cache.in_use(), single.in_use());
            prop_assert_eq!(cache.runs.blocks(), single.blocks.len());
        }
    }

    /// Colliding hashes cause wrong hits, but no panic and no leak.
    #[test]
    fn blocks_that_collide_do_no_harm(capacity in 1..40_usize, steps in steps()) {
        let mut cache = KvCache::new(capacity, 1);
        let mut held = Vec::new();
        for step in steps {
            match step {
                Step::Take(letters, _, generated, stored) => {
                    let hashes: Arc<[BlockHash]> = letters.iter().map(|letter| u64::from(*letter)).collect();
                    held.extend(cache.take(&hashes, hashes.len(), generated, stored).map(|allocation| allocation.held));
                }
                Step::Release(index) if !held.is_empty() => cache.release(&held.swap_remove(index.index(held.len()))),
                Step::Release(_) => {}
            }
            cache.runs.check();
            prop_assert!(cache.in_use() <= capacity);
        }
        for held in &held {
            cache.release(held);
        }
        prop_assert_eq!(cache.in_use(), 0);
        cache.runs.evict(usize::MAX);
        cache.runs.check();
        prop_assert_eq!(cache.runs.blocks(), 0);
    }
}
