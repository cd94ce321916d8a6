//! The precise prefix index: which endpoint holds which blocks of tokens, as reported by the engines.
//!
//! The caller receives the engines' events and applies them with [`Holdings::update`], while picks are made. Only prompts in
//! the model's own tokens are looked up, because no engine knows blocks of text.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use longboat_kv_events::{ExpectedBlocks, Index, Limits, Removals};
use parking_lot::RwLock;

use crate::{
    endpoint::{Slot, Snapshot},
    prefix::Matches,
    request::Request,
};

/// The most expected blocks at once. They expire after seconds.
const MAX_EXPECTED: usize = 1 << 20;

/// The most blocks of an endpoint that are removed while picks wait.
const MAX_FORGOTTEN_BLOCKS: usize = 512;

/// The settings of a precise prefix producer.
#[derive(Debug, Clone, PartialEq)]
pub struct PreciseSettings {
    /// The size of blocks, and the most blocks in the index.
    pub limits: Limits,
    /// How long the blocks of a request count as held by its endpoint, in milliseconds, before an event says so. `None` turns
    /// this off.
    pub speculative_ms: Option<u64>,
    /// Where the events come from.
    pub events: EventSource,
}

/// Where KV cache events come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventSource {
    /// Only messages whose topic starts with this are read.
    pub topic: String,
    /// How each endpoint publishes on its own port.
    pub endpoints: Option<EndpointEvents>,
    /// The picker's own port, to which engines may connect.
    pub listen: Option<ListenForEvents>,
}

/// The port that engines may connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenForEvents {
    /// `IP:PORT`, or `*:PORT`.
    pub address: String,
    /// Whether the port is configured. If not, a port that cannot be bound is no error, because the engines may not need it.
    pub required: bool,
}

/// How an endpoint publishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointEvents {
    /// The port of the first data-parallel rank. Further ranks use the following ports.
    pub port: u16,
    /// The first rank's port for replays of earlier messages. `None` if there is none.
    pub replay_port: Option<u16>,
    /// Labels that an endpoint must have, with this value or, without one, with any value.
    pub labels: Vec<(String, Option<String>)>,
}

/// The blocks that each endpoint holds.
#[derive(Debug)]
pub struct Holdings {
    settings: PreciseSettings,
    known: RwLock<BlockIndex>,
    lookups: AtomicU64,
    hits: AtomicU64,
}

/// The counters of a precise index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexCounts {
    /// Added blocks.
    pub admissions: u64,
    /// Evicted blocks.
    pub evictions: u64,
    /// Prompts that were looked up.
    pub lookups: u64,
    /// Blocks of them that the best endpoint held, from the first on.
    pub hits: u64,
    /// The results of the removals that engines reported.
    pub removals: Removals,
}

#[derive(Debug)]
struct BlockIndex {
    index: Index,
    expected: ExpectedBlocks,
}

// === impl Holdings ===

impl Holdings {
    pub(crate) fn new(settings: PreciseSettings) -> Self {
        let expected = ExpectedBlocks::new(if settings.speculative_ms.is_some() { MAX_EXPECTED } else { 0 });
        let index = Index::new(settings.limits.clone());
        let known = RwLock::new(BlockIndex { index, expected });
        Self { settings, known, lookups: AtomicU64::new(0), hits: AtomicU64::new(0) }
    }

    /// The counters since the start.
    pub fn counts(&self) -> IndexCounts {
        let known = self.known.read();
        let (admissions, evictions) = known.index.traffic();
        let removals = known.index.removals();
        let (lookups, hits) = (self.lookups.load(Relaxed), self.hits.load(Relaxed));
        IndexCounts { admissions, evictions, lookups, hits, removals }
    }

    /// Returns the settings.
    pub fn settings(&self) -> &PreciseSettings {
        &self.settings
    }

    /// Changes the index, in which the slot's number identifies an endpoint. Picks wait during the change.
    pub fn update<T>(&self, change: impl FnOnce(&mut Index) -> T) -> T {
        change(&mut self.known.write().index)
    }

    /// The number of blocks in the index, over all endpoints.
    pub fn len(&self) -> usize {
        self.known.read().index.len()
    }

    /// Whether the index is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn held(&self, slot: Slot) -> usize {
        self.known.read().index.held_by(slot.0)
    }

    /// Finds the candidates that hold a request's prompts. Blocks in tiers with a weight below 1 give fractions, which are
    /// rounded down.
    pub(crate) fn matches(&self, request: &Request<'_>, candidates: &[Snapshot], now: u64) -> Matches {
        let limits = &self.settings.limits;
        let block_tokens = u32::try_from(limits.block_tokens).unwrap_or(u32::MAX);
        if !request.exact {
            return Matches::new(Vec::new(), vec![0; candidates.len()], block_tokens);
        }
        let prompts = request.prompts.iter();
        let chains: Vec<_> =
            prompts.map(|prompt| limits.keys(request.model, &prompt.bytes, request.cache_salt)).collect();
        let holders: Vec<u32> = candidates.iter().map(|candidate| candidate.endpoint.slot.0).collect();
        let mut matched = vec![0; candidates.len()];
        let known = self.known.read();
        for keys in &chains {
            let held = known.index.held_or_expected(keys, &holders, &known.expected, now);
            for (matched, held) in matched.iter_mut().zip(held) {
                *matched += whole(held);
            }
        }
        Matches::new(chains, matched, block_tokens)
    }

    /// Counts the lookup for a request that is scheduled. The features for a predictor need the same matches before, and are no
    /// lookup of their own.
    pub(crate) fn count(&self, matches: &Matches) {
        if !matches.chains().is_empty() {
            self.lookups.fetch_add(1, Relaxed);
            self.hits.fetch_add(matches.best().into(), Relaxed);
        }
    }

    /// Records that a request was sent to an endpoint, which will hold its blocks soon.
    pub(crate) fn learn(&self, slot: Slot, matches: &Matches, now: u64) {
        let mut known = self.known.write();
        let BlockIndex { index, expected } = &mut *known;
        // The order of use matters only if entries may have to be evicted.
        let crowded = index.len() > self.settings.limits.entries / 2;
        for keys in matches.chains() {
            if let Some(time) = self.settings.speculative_ms {
                expected.note(slot.0, keys, now, now.saturating_add(time));
            }
            if crowded {
                index.used(keys);
            }
        }
    }

    /// Removes all that is known about an endpoint. Picks go on between the parts.
    pub fn forget(&self, slot: Slot) {
        while self.update(|index| index.forget_part(slot.0, MAX_FORGOTTEN_BLOCKS)) {}
        self.known.write().expected.forget(slot.0);
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a sum of weights that are not negative"
)]
fn whole(held: f64) -> u32 {
    held as u32
}

#[cfg(test)]
mod tests;
