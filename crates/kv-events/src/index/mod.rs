//! The index of blocks and the endpoints that hold them.
//!
//! An entry is a block of one endpoint on one tier, as its engine stored it. Entries are looked up by the engine's hash, to
//! remove or continue them, and by their keys, to find the endpoints that hold a prompt. The number of entries is limited:
//! the least recently used are removed.
//!
//! A key covers the tokens of a block and of all blocks before it. With a draft model that reads the target's hidden states (EAGLE,
//! MTP), the hashes of vLLM 0.33 also cover the tokens that follow the block. Such an engine holds a block once for each
//! continuation, and a request that goes on differently does not get it. The event has the tokens of the block without those that
//! follow, so where two prompts part, the index may count one block more than the engine has. It does so for all endpoints that
//! hold the block, so scores differ by one block at most.

mod tiers;

use ahash::AHashMap;
use tiers::Tiers;

use crate::{
    event::{Event, GPU, Stored},
    expected::ExpectedBlocks,
    keys::{BlockKey, Chain},
};

/// The limits and settings of an index.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// The number of tokens in a block of a request.
    pub block_tokens: usize,
    /// A seed that is part of every key.
    pub seed: String,
    /// The most entries over all endpoints.
    pub entries: usize,
    /// The weight of a block on a tier, by the tier's name in lower case. A tier that is not listed has weight 1.
    pub weights: Vec<(String, f64)>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            block_tokens: 16,
            seed: String::new(),
            entries: 1_000_000,
            weights: vec![(GPU.to_owned(), 1.0), ("cpu".to_owned(), 0.8)],
        }
    }
}

/// The result of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The event was applied.
    Applied,
    /// The preceding block is unknown, so the prompt is unknown.
    UnknownParent,
    /// The engine's block size is not a multiple of the index's block size, or the number of tokens does not match the
    /// blocks.
    Unusable,
}

/// The results of the removals that engines reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removals {
    /// Blocks that went, or were not there.
    pub applied: u64,
    /// Blocks that stay, because the engine has stored them more often than it has removed them.
    pub outstanding: u64,
}

/// The most blocks of the index in one block of an engine, so that the number of entries limits the memory.
const MAX_PARTS: usize = 64;
/// The most hashes under which an endpoint holds the same block, over all tiers. Engines have one for each tier, and some have one
/// for each continuation; the newest are kept.
const MAX_HASHES: usize = 64;
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone)]
struct Entry {
    holder: u32,
    tier: u16,
    engine: u64,
    /// How many more times the engine has stored the block than removed it. The count exceeds 1 for blocks of several
    /// attention groups.
    count: u32,
    keys: Box<[BlockKey]>,
    older: u32,
    newer: u32,
}

/// A block that an endpoint holds, with its entry.
#[derive(Debug, Clone, Copy)]
struct HeldBlock {
    holder: u32,
    id: u32,
}

/// The index of blocks and the endpoints that hold them.
#[derive(Debug, Clone)]
pub struct Index {
    limits: Limits,
    tiers: Tiers,
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// The entries of each endpoint, by tier and the engine's hash.
    by_engine: AHashMap<u32, AHashMap<(u16, u64), u32>>,
    length: usize,
    /// Blocks that ever came in.
    admitted: u64,
    removals: Removals,
    by_key: AHashMap<BlockKey, Vec<HeldBlock>>,
    oldest: u32,
    newest: u32,
}

// === impl Limits ===

impl Limits {
    /// Returns the keys of a prompt's full blocks. The prompt consists of the little-endian bytes of its tokens. `model` is
    /// the adapter if the request names one.
    pub fn keys(&self, model: &str, prompt: &[u8], salt: &str) -> Vec<BlockKey> {
        Chain::start(&self.seed, model).prompt(prompt, self.block_tokens, salt)
    }
}

// === impl Index ===

impl Index {
    /// Creates an empty index.
    pub fn new(limits: Limits) -> Self {
        Self {
            tiers: Tiers::new(limits.weights.clone()),
            limits,
            entries: Vec::new(),
            free: Vec::new(),
            by_engine: AHashMap::new(),
            length: 0,
            admitted: 0,
            removals: Removals::default(),
            by_key: AHashMap::new(),
            oldest: NONE,
            newest: NONE,
        }
    }

    /// How many blocks ever came in, and how many of them went: removed by their engine, with their endpoint, or for others.
    pub fn traffic(&self) -> (u64, u64) {
        (self.admitted, self.admitted - self.length as u64)
    }

    /// The results of all removals that engines reported.
    pub fn removals(&self) -> Removals {
        self.removals
    }

    /// Entries over all endpoints.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether the index is empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the keys of a prompt's full blocks. `model` is the adapter if the request names one.
    pub fn keys(&self, model: &str, tokens: &[u32], salt: &str) -> Vec<BlockKey> {
        let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
        self.limits.keys(model, &bytes, salt)
    }

    /// Returns the number of an endpoint's entries.
    pub fn held_by(&self, holder: u32) -> usize {
        self.by_engine.get(&holder).map_or(0, |blocks| blocks.len())
    }

    /// Applies an event of an endpoint that serves this model.
    pub fn apply(&mut self, holder: u32, model: &str, event: &Event) -> Outcome {
        match event {
            Event::Stored(stored) => self.store(holder, model, stored),
            Event::Removed { hashes, medium } => {
                let tier = self.tiers.number(holder, medium);
                for &engine in hashes {
                    if let Some(id) = self.find(holder, tier, engine) {
                        let entry = &mut self.entries[id as usize];
                        entry.count -= 1;
                        if entry.count > 0 {
                            self.removals.outstanding += 1;
                            continue;
                        }
                        self.remove(id);
                    }
                    self.removals.applied += 1;
                }
                Outcome::Applied
            }
            Event::Cleared => {
                self.forget(holder);
                Outcome::Applied
            }
        }
    }

    /// Removes all entries of this endpoint.
    pub fn forget(&mut self, holder: u32) {
        self.forget_part(holder, usize::MAX);
    }

    /// Removes entries of this endpoint, at most this many. Returns whether more are left. The entries of a large engine take
    /// seconds, and nobody can look up a prompt meanwhile.
    pub fn forget_part(&mut self, holder: u32, entries: usize) -> bool {
        let Some(blocks) = self.by_engine.get(&holder) else {
            self.tiers.forget(holder);
            return false;
        };
        let ids: Vec<u32> = blocks.values().copied().take(entries).collect();
        for id in ids {
            self.remove(id);
        }
        let has_more = self.by_engine.contains_key(&holder);
        if !has_more {
            self.tiers.forget(holder);
        }
        has_more
    }

    /// Returns how much of a prompt each endpoint holds: the total weight of its blocks, from the first block to the first
    /// gap. If several tiers have a block, the best tier counts.
    pub fn held(&self, keys: &[BlockKey], holders: &[u32]) -> Vec<f64> {
        self.held_or_expected(keys, holders, &ExpectedBlocks::new(0), 0)
    }

    /// Like [`Self::held`], but a block that an endpoint is expected to hold counts like a block on its GPU.
    pub fn held_or_expected(
        &self,
        keys: &[BlockKey],
        holders: &[u32],
        expected: &ExpectedBlocks,
        now: u64,
    ) -> Vec<f64> {
        let mut sums = vec![0.0; holders.len()];
        let mut holding: Vec<usize> = (0..holders.len()).collect();
        let soon = self.tiers.named_weight(GPU);
        // A block that many prompts share is held by many endpoints. Its entries are read once for all of them: to read them once
        // for each endpoint would take the square of their number.
        let places: AHashMap<u32, usize> = holders.iter().copied().zip(0..).collect();
        let mut best: Vec<Option<f64>> = vec![None; holders.len()];
        for key in keys {
            for block in self.by_key.get(key).map_or(&[][..], Vec::as_slice) {
                if let Some(&place) = places.get(&block.holder) {
                    let tier = self.entries[block.id as usize].tier;
                    let weight = self.tiers.weight(tier);
                    best[place] = Some(best[place].map_or(weight, |known| known.max(weight)));
                }
            }
            holding.retain(|&place| {
                let mut held = best[place].take();
                if held.is_none_or(|held| held < soon) && expected.is_held(holders[place], *key, now) {
                    held = Some(soon);
                }
                sums[place] += held.unwrap_or_default();
                held.is_some()
            });
            if holding.is_empty() {
                break;
            }
        }
        sums
    }

    /// Marks the blocks of a request as recently used. The first block becomes the most recent one.
    pub fn used(&mut self, keys: &[BlockKey]) {
        for key in keys.iter().rev() {
            // A copy, because `link` changes the index.
            for HeldBlock { id, .. } in self.by_key.get(key).cloned().unwrap_or_default() {
                self.unlink(id);
                self.link(id);
            }
        }
    }

    fn store(&mut self, holder: u32, model: &str, stored: &Stored) -> Outcome {
        let (size, own) = (stored.block_size, self.limits.block_tokens);
        let fits = own > 0 && size >= own && size.is_multiple_of(own) && size / own <= MAX_PARTS;
        if !fits || stored.hashes.len().checked_mul(size) != Some(stored.tokens.len()) {
            return Outcome::Unusable;
        }
        let mut chain = match stored.parent {
            Some(parent) => match self.last_key(holder, parent) {
                Some(key) => Chain::after(key),
                None => return Outcome::UnknownParent,
            },
            None => match (&stored.lora_name, stored.lora_id) {
                (Some(name), _) => Chain::start(&self.limits.seed, name),
                // Requests cannot name an adapter without a name. Its blocks must not count as blocks of the model.
                (None, Some(id)) => Chain::start(&self.limits.seed, &format!("{model}\0{id}")),
                (None, None) => Chain::start(&self.limits.seed, model),
            },
        };
        let tier = self.tiers.admit(holder, &stored.medium);
        for (place, (&engine, tokens)) in
            stored.hashes.iter().zip(stored.tokens.chunks_exact(size)).enumerate()
        {
            let extra = stored.extra.get(place).map_or(&[][..], Vec::as_slice);
            let keys: Box<[BlockKey]> = tokens
                .chunks_exact(own)
                .enumerate()
                // The extra keys of the engine's block are part of the first of the index's blocks.
                .map(|(part, block)| chain.next(block, if part == 0 { extra } else { &[] }))
                .collect();
            self.insert(holder, tier, engine, keys);
        }
        Outcome::Applied
    }

    /// Returns the key of the last part of an engine's block, on any tier.
    fn last_key(&self, holder: u32, engine: u64) -> Option<BlockKey> {
        let id = self.tiers.numbers(holder).find_map(|tier| self.find(holder, tier, engine))?;
        self.entries[id as usize].keys.last().copied()
    }

    fn find(&self, holder: u32, tier: u16, engine: u64) -> Option<u32> {
        self.by_engine.get(&holder)?.get(&(tier, engine)).copied()
    }

    fn insert(&mut self, holder: u32, tier: u16, engine: u64, keys: Box<[BlockKey]>) {
        let mut count = 1;
        if let Some(id) = self.find(holder, tier, engine) {
            let entry = &mut self.entries[id as usize];
            if entry.keys == keys {
                entry.count = entry.count.saturating_add(1);
                self.unlink(id);
                self.link(id);
                return;
            }
            // The same hash has other tokens: the latest event counts.
            count = entry.count.saturating_add(1);
            self.remove(id);
        }
        if self.limits.entries == 0 {
            return;
        }
        while let Some(first) = keys.iter().find_map(|key| self.first_of_too_many(holder, *key)) {
            self.remove(first);
        }
        while self.length >= self.limits.entries && self.oldest != NONE {
            self.remove(self.oldest);
        }
        let entry = Entry { holder, tier, engine, count, keys, older: NONE, newer: NONE };
        let id = if let Some(id) = self.free.pop() {
            self.entries[id as usize] = entry;
            id
        } else {
            let Ok(id) = u32::try_from(self.entries.len()) else { return };
            self.entries.push(entry);
            id
        };
        for key in &self.entries[id as usize].keys {
            self.by_key.entry(*key).or_default().push(HeldBlock { holder, id });
        }
        self.by_engine.entry(holder).or_default().insert((tier, engine), id);
        self.length += 1;
        self.admitted += 1;
        self.link(id);
    }

    /// Returns the first entry of a block that an endpoint holds under too many hashes. What is done for a block takes time for
    /// each of its entries, so an engine that gives a block ever new hashes must not add entries without end.
    fn first_of_too_many(&self, holder: u32, key: BlockKey) -> Option<u32> {
        let blocks = self.by_key.get(&key).filter(|blocks| blocks.len() >= MAX_HASHES)?;
        let mut own = blocks.iter().filter(|block| block.holder == holder);
        let first = own.next()?;
        own.nth(MAX_HASHES - 2).map(|_| first.id)
    }

    fn remove(&mut self, id: u32) {
        let &Entry { holder, tier, engine, .. } = &self.entries[id as usize];
        if let std::collections::hash_map::Entry::Occupied(mut blocks) = self.by_engine.entry(holder) {
            self.length -= usize::from(blocks.get_mut().remove(&(tier, engine)).is_some());
            if blocks.get().is_empty() {
                blocks.remove();
            }
        }
        self.release(id);
    }

    /// Frees an entry that is no longer reachable by the engine's hash.
    fn release(&mut self, id: u32) {
        self.unlink(id);
        let keys = std::mem::take(&mut self.entries[id as usize].keys);
        for key in keys {
            if let std::collections::hash_map::Entry::Occupied(mut ids) = self.by_key.entry(key) {
                ids.get_mut().retain(|block| block.id != id);
                if ids.get().is_empty() {
                    ids.remove();
                }
            }
        }
        self.free.push(id);
    }

    fn unlink(&mut self, id: u32) {
        let &Entry { older, newer, .. } = &self.entries[id as usize];
        match self.entries.get_mut(older as usize) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
        match self.entries.get_mut(newer as usize) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
    }

    fn link(&mut self, id: u32) {
        let newest = self.newest;
        match self.entries.get_mut(newest as usize) {
            Some(entry) => entry.newer = id,
            None => self.oldest = id,
        }
        let entry = &mut self.entries[id as usize];
        entry.older = newest;
        entry.newer = NONE;
        self.newest = id;
    }
}

#[cfg(test)]
mod tests;
