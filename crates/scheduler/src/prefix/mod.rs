//! The approximate prefix index: which endpoint has probably cached which prompt prefixes.
//!
//! A prompt is divided into blocks. Each block's hash includes the hash of the block before, so that one hash stands for a
//! whole prefix. The index remembers the prefixes that were sent to each endpoint, and forgets the least recently used first.
//!
//! Three differences from the reference, each because the reference's behaviour is a defect:
//! * Capacity is in tokens. The reference compares a number of 64-token blocks with an engine's number of 16-token blocks, and
//!   so assumes four times the real cache.
//! * A prompt that is longer than the capacity is kept completely until the next prompt, and is then forgotten. The reference
//!   never forgets it.
//! * An endpoint matches up to the first block that it does not hold. The reference also counts blocks after a gap, which an
//!   engine cannot use.
//!
//! A prefix that many prompts share, such as a system prompt, does not show where a prompt should go: the first endpoint that
//! holds it would get all these prompts. If the settings ask for it, such a prefix does not count as affinity. It is recognized
//! by its forks: prompts that match up to a block and then differ. The turns of one conversation fork at most once or twice at
//! a block, because each turn is longer than the one before.

use std::collections::hash_map::Entry;

use ahash::AHashMap;
use xxhash_rust::xxh64::xxh64;

pub(crate) mod cache;

use cache::Cache;

use crate::{
    endpoint::{Slot, Snapshot},
    request::{Prompt, Request},
};

/// Smaller blocks cost more than they are worth.
const MIN_BLOCK_TOKENS: u32 = 64;

/// How prompts are divided into blocks and remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) auto_tune: bool,
    pub(crate) block_tokens: u32,
    pub(crate) max_tokens: u32,
    /// Used if `max_tokens` is 0.
    pub(crate) max_blocks: u32,
    /// Blocks per endpoint, if the endpoint does not report its capacity.
    pub(crate) capacity: u32,
    /// The number of forks at a block from which on the prefix up to this block counts as shared by many prompts. 0 turns this
    /// off.
    pub(crate) shared_after: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            auto_tune: true,
            block_tokens: 16,
            max_tokens: 131_072,
            max_blocks: 2_048,
            capacity: 31_250,
            shared_after: 0,
        }
    }
}

impl Settings {
    /// The most bytes of text that are read. Without `max_tokens` there is no limit: the endpoints choose the size of blocks,
    /// so the length of `max_blocks` is not known here.
    pub(crate) fn text_limit(&self) -> usize {
        match self.max_tokens {
            0 => usize::MAX,
            tokens => (tokens as usize).saturating_mul(4),
        }
    }
}

/// The prefixes of a request, and how much of them each candidate holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Matches {
    chains: Vec<Vec<u64>>,
    matched: Vec<u32>,
    total: u32,
    /// Like `matched` and `total`, without the leading blocks that many prompts share.
    own: Vec<u32>,
    own_total: u32,
    /// For each prompt, the last known block before the prompt differs from all remembered ones.
    forks: Vec<u64>,
    block_tokens: u32,
    /// Whether these matches say where a request should go, instead of which blocks are cached.
    planned: bool,
}

impl Matches {
    /// Creates the matches of a request with these blocks.
    pub(crate) fn new(chains: Vec<Vec<u64>>, matched: Vec<u32>, block_tokens: u32) -> Self {
        let total = chains.iter().map(|hashes| count(hashes.len())).sum();
        let own = matched.clone();
        Self {
            chains,
            matched,
            total,
            own,
            own_total: total,
            forks: Vec::new(),
            block_tokens,
            planned: false,
        }
    }

    /// Creates matches that say where a request of `total` blocks should go.
    pub(crate) fn planned(total: u32, matched: Vec<u32>, block_tokens: u32) -> Self {
        let own = matched.clone();
        Self { matched, total, own, own_total: total, block_tokens, planned: true, ..Self::default() }
    }

    /// Returns the first matches that say which blocks are cached.
    pub(crate) fn cached(all: &[Self]) -> Option<&Self> {
        all.iter().find(|matches| matches.tells())
    }

    /// Whether the matches say which blocks are cached. Otherwise they say where blocks are planned to be.
    pub(crate) fn tells(&self) -> bool {
        !self.planned
    }

    /// The blocks of each prompt.
    pub(crate) fn chains(&self) -> &[Vec<u64>] {
        &self.chains
    }

    /// Returns the number of blocks that a candidate holds.
    pub(crate) fn matched(&self, candidate: usize) -> u32 {
        self.matched.get(candidate).copied().unwrap_or_default()
    }

    /// Returns the number of blocks of the request.
    pub(crate) fn total(&self) -> u32 {
        self.total
    }

    pub(crate) fn block_tokens(&self) -> u32 {
        self.block_tokens
    }

    /// Returns the number of blocks that a candidate holds, without the blocks that many prompts share.
    pub(crate) fn own(&self, candidate: usize) -> u32 {
        self.own.get(candidate).copied().unwrap_or_default()
    }

    /// Returns a candidate's `own` blocks as a share of all. 0 for an empty request.
    pub(crate) fn ratio(&self, candidate: usize) -> f64 {
        if self.own_total == 0 { 0.0 } else { f64::from(self.own(candidate)) / f64::from(self.own_total) }
    }

    /// Whether no candidate holds any `own` block.
    pub(crate) fn is_cold(&self) -> bool {
        self.own.iter().all(|&blocks| blocks == 0)
    }
}

/// The index of all endpoints' prefixes.
#[derive(Debug, Clone)]
pub(crate) struct PrefixIndex {
    settings: Settings,
    holders: AHashMap<u64, Holders>,
    caches: Vec<Cache>,
}

/// The endpoints that hold a block.
#[derive(Debug, Clone, Default)]
struct Holders {
    slots: SlotSet,
    /// The number of prompts that matched up to this block and then differed.
    forks: u32,
}

impl PrefixIndex {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, holders: AHashMap::new(), caches: Vec::new() }
    }

    /// The number of remembered prefixes, over all endpoints.
    pub(crate) fn len(&self) -> usize {
        self.caches.iter().map(Cache::len).sum()
    }

    /// The number of prefixes that an endpoint holds.
    pub(crate) fn held(&self, slot: Slot) -> usize {
        self.caches.get(slot.0 as usize).map_or(0, Cache::len)
    }

    /// Computes a request's hashes and looks up their holders. All candidates need the same block size to be comparable, so the
    /// first candidate's block size is used for all.
    pub(crate) fn matches(&self, request: &Request<'_>, candidates: &[Snapshot]) -> Matches {
        let block_tokens = self.block_tokens(candidates);
        let root = root(request.model, request.cache_salt);
        let limit = self.max_blocks(block_tokens);
        let chains: Vec<Vec<u64>> =
            request.prompts.iter().map(|prompt| chain(root, prompt, block_tokens, limit)).collect();
        let mut matches = Matches::new(chains, vec![0; candidates.len()], block_tokens);
        let chains = std::mem::take(&mut matches.chains);
        for hashes in &chains {
            self.walk(hashes, candidates, &mut matches);
        }
        Matches { chains, ..matches }
    }

    /// Counts the leading blocks of one prompt that each candidate holds.
    fn walk(&self, hashes: &[u64], candidates: &[Snapshot], matches: &mut Matches) {
        let shared = self.shared(hashes, &mut matches.forks);
        matches.own_total -= count(shared);
        let mut holding: Vec<usize> = (0..candidates.len()).collect();
        for (depth, hash) in hashes.iter().enumerate() {
            let Some(holders) = self.holders.get(hash) else { break };
            holding.retain(|&candidate| holders.slots.contains(candidates[candidate].endpoint.slot));
            if holding.is_empty() {
                break;
            }
            for &candidate in &holding {
                matches.matched[candidate] += 1;
                matches.own[candidate] += u32::from(depth >= shared);
            }
        }
    }

    /// Returns the number of leading blocks that many prompts share. Adds the last known block to `forks` if the prompt goes on
    /// after it.
    fn shared(&self, hashes: &[u64], forks: &mut Vec<u64>) -> usize {
        if self.settings.shared_after == 0 {
            return 0;
        }
        let (mut shared, mut last) = (0, None);
        for (depth, hash) in hashes.iter().enumerate() {
            let Some(holders) = self.holders.get(hash) else {
                forks.extend(last);
                break;
            };
            last = Some(*hash);
            if holders.forks >= self.settings.shared_after {
                shared = depth + 1;
            }
        }
        shared
    }

    /// Counts the forks of a request. Called once per request, before [`learn`](Self::learn).
    pub(crate) fn fork(&mut self, matches: &Matches) {
        for hash in &matches.forks {
            if let Some(holders) = self.holders.get_mut(hash) {
                holders.forks = holders.forks.saturating_add(1);
            }
        }
    }

    /// Records that a request was sent to an endpoint.
    pub(crate) fn learn(&mut self, slot: Slot, matches: &Matches, metrics: &crate::Metrics) {
        let capacity = if self.settings.auto_tune && metrics.num_blocks > 0 && metrics.block_size > 0 {
            let tokens = u64::from(metrics.num_blocks) * u64::from(metrics.block_size);
            usize::try_from(tokens / u64::from(matches.block_tokens.max(1))).unwrap_or(usize::MAX)
        } else {
            self.settings.capacity as usize
        };
        let index = slot.0 as usize;
        if self.caches.len() <= index {
            self.caches.resize_with(index + 1, Cache::default);
        }
        let cache = &mut self.caches[index];
        let mut newest = 0;
        for hashes in &matches.chains {
            newest += hashes.len();
            // The last block is touched first. So the first block is evicted last, and the remaining blocks are always a
            // prefix.
            for &hash in hashes.iter().rev() {
                if cache.touch(hash) {
                    self.holders.entry(hash).or_default().slots.insert(slot);
                }
            }
        }
        while cache.len() > capacity.max(newest) {
            let Some(hash) = cache.evict() else { break };
            drop_holder(&mut self.holders, hash, slot);
        }
    }

    pub(crate) fn forget(&mut self, slot: Slot) {
        if let Some(cache) = self.caches.get_mut(slot.0 as usize) {
            for hash in std::mem::take(cache).into_prefixes() {
                drop_holder(&mut self.holders, hash, slot);
            }
        }
    }

    fn block_tokens(&self, candidates: &[Snapshot]) -> u32 {
        let scraped = candidates.first().map_or(0, |first| first.metrics.block_size);
        if self.settings.auto_tune && scraped > 0 {
            scraped.max(MIN_BLOCK_TOKENS)
        } else {
            self.settings.block_tokens.max(MIN_BLOCK_TOKENS)
        }
    }

    fn max_blocks(&self, block_tokens: u32) -> usize {
        match (self.settings.max_tokens, self.settings.max_blocks) {
            (0, 0) => usize::MAX,
            (0, blocks) => blocks as usize,
            (tokens, _) => (tokens / block_tokens).max(1) as usize,
        }
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn drop_holder(holders: &mut AHashMap<u64, Holders>, hash: u64, slot: Slot) {
    if let Entry::Occupied(mut entry) = holders.entry(hash) {
        entry.get_mut().slots.remove(slot);
        if entry.get().slots.is_empty() {
            entry.remove();
        }
    }
}

/// Returns the hash before the first block, made from the model and the tenant's salt.
pub(crate) fn root(model: &str, salt: &str) -> u64 {
    if salt.is_empty() {
        return xxh64(model.as_bytes(), 0);
    }
    let mut both = Vec::with_capacity(model.len() + salt.len());
    both.extend_from_slice(model.as_bytes());
    both.extend_from_slice(salt.as_bytes());
    xxh64(&both, 0)
}

/// Returns the hashes `hᵢ = H(LE64(H(blockᵢ)) ‖ LE64(hᵢ₋₁))`. A partial last block counts.
pub(crate) fn chain(root: u64, prompt: &Prompt, block_tokens: u32, limit: usize) -> Vec<u64> {
    let block_bytes = block_tokens as usize * 4;
    let mut previous = root;
    prompt
        .bytes
        .chunks(block_bytes)
        .take(limit)
        .map(|block| {
            let own = if block.len() % 4 == 0 {
                xxh64(block, 0)
            } else {
                let mut padded = block.to_vec();
                padded.resize(block.len().next_multiple_of(4), 0);
                xxh64(&padded, 0)
            };
            let mut link = [0; 16];
            link[..8].copy_from_slice(&own.to_le_bytes());
            link[8..].copy_from_slice(&previous.to_le_bytes());
            previous = xxh64(&link, 0);
            previous
        })
        .collect()
}

/// A set of slots. The first 64 endpoints use one word, and the others are behind one pointer. So an entry of the index takes
/// only 32 bytes. This matters because the table is larger than the processor's caches and is accessed for each block of a
/// prompt.
#[derive(Debug, Clone, Default)]
struct SlotSet {
    first: u64,
    more: Option<Box<More>>,
}

/// The slots from the 64th on.
#[derive(Debug, Clone, Default)]
struct More(Vec<u64>);

const _: () =
    assert!(size_of::<(u64, Holders)>() <= 32, "an entry of the index is at most half a cache line");

impl SlotSet {
    fn contains(&self, slot: Slot) -> bool {
        let bit = 1 << (slot.0 % 64);
        match slot.0 as usize / 64 {
            0 => self.first & bit != 0,
            word => {
                self.more.as_ref().and_then(|more| more.0.get(word - 1)).is_some_and(|bits| bits & bit != 0)
            }
        }
    }

    fn insert(&mut self, slot: Slot) {
        let bit = 1 << (slot.0 % 64);
        match slot.0 as usize / 64 {
            0 => self.first |= bit,
            word => {
                let More(words) = &mut **self.more.get_or_insert_default();
                if words.len() < word {
                    words.resize(word, 0);
                }
                words[word - 1] |= bit;
            }
        }
    }

    fn remove(&mut self, slot: Slot) {
        let bit = 1 << (slot.0 % 64);
        match slot.0 as usize / 64 {
            0 => self.first &= !bit,
            word => {
                if let Some(bits) = self.more.as_mut().and_then(|more| more.0.get_mut(word - 1)) {
                    *bits &= !bit;
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.first == 0 && self.more.as_ref().is_none_or(|more| more.0.iter().all(|&bits| bits == 0))
    }
}

#[cfg(test)]
mod tests;
