//! The precise prefix index: which endpoint holds which blocks of tokens, as the engines themselves say.
//!
//! The caller follows the engines' events and feeds them in with [`Holdings::update`], while picks are made. Only prompts in the
//! model's own tokens are looked up: blocks of text that stands for tokens are known to no engine.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use longboat_kv_events::{Expected, Index, Limits};
use parking_lot::RwLock;

use crate::{
    endpoint::{Slot, Snapshot},
    prefix::Matches,
    request::Request,
};

/// The most blocks that are expected at once. They are there for seconds only.
const EXPECTED: usize = 1 << 20;

/// What a precise prefix producer is told.
#[derive(Debug, Clone, PartialEq)]
pub struct PreciseSettings {
    /// How blocks are seen, and how many are known.
    pub limits: Limits,
    /// How long a request's blocks count as held where it was just sent, in milliseconds; `None`: not at all.
    pub speculative_ms: Option<u64>,
    /// Where the events come from.
    pub events: EventSource,
}

/// Where KV cache events come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventSource {
    /// Messages whose topic starts with this are taken.
    pub topic: String,
    /// Each endpoint publishes on a port of its own.
    pub endpoints: Option<EndpointEvents>,
    /// Engines may connect to a port of ours.
    pub listen: Option<ListenForEvents>,
}

/// Where engines may connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenForEvents {
    /// `IP:PORT`, or `*:PORT`.
    pub address: String,
    /// Whether it was asked for. Otherwise it is only tried: no engine may need it.
    pub required: bool,
}

/// How an endpoint publishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointEvents {
    /// The port of the first data-parallel rank; the others follow it.
    pub port: u16,
    /// The port, of the first rank, that repeats what was said; `None`: nothing does.
    pub replay_port: Option<u16>,
    /// Labels that an endpoint must have, with a value or with any.
    pub labels: Vec<(String, Option<String>)>,
}

/// Who holds which blocks.
#[derive(Debug)]
pub struct Holdings {
    settings: PreciseSettings,
    known: RwLock<Known>,
    lookups: AtomicU64,
    hits: AtomicU64,
}

/// What a precise index did so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexCounts {
    /// Blocks that came in.
    pub admissions: u64,
    /// Blocks that went.
    pub evictions: u64,
    /// Prompts that were looked up.
    pub lookups: u64,
    /// Blocks of them that the best endpoint held, from the first on.
    pub hits: u64,
}

#[derive(Debug)]
struct Known {
    index: Index,
    expected: Expected,
}

// === impl Holdings ===

impl Holdings {
    pub(crate) fn new(settings: PreciseSettings) -> Self {
        let expected = Expected::new(if settings.speculative_ms.is_some() { EXPECTED } else { 0 });
        let index = Index::new(settings.limits.clone());
        let known = RwLock::new(Known { index, expected });
        Self { settings, known, lookups: AtomicU64::new(0), hits: AtomicU64::new(0) }
    }

    /// What it did so far.
    pub fn counts(&self) -> IndexCounts {
        let (admissions, evictions) = self.known.read().index.traffic();
        let (lookups, hits) = (self.lookups.load(Relaxed), self.hits.load(Relaxed));
        IndexCounts { admissions, evictions, lookups, hits }
    }

    /// What it was told.
    pub fn settings(&self) -> &PreciseSettings {
        &self.settings
    }

    /// Changes the index, in which an endpoint is known by the number of its slot. Picks wait for as long as this takes.
    pub fn update<T>(&self, change: impl FnOnce(&mut Index) -> T) -> T {
        change(&mut self.known.write().index)
    }

    /// Blocks that are known, over all endpoints.
    pub fn len(&self) -> usize {
        self.known.read().index.len()
    }

    /// Whether no block is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn held(&self, slot: Slot) -> usize {
        self.known.read().index.held_by(slot.0)
    }

    /// Looks who holds a request's prompts. A part of a block, as tiers worth less than 1 give, counts as none.
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
        self.lookups.fetch_add(1, Relaxed);
        self.hits.fetch_add(matched.iter().max().copied().unwrap_or_default().into(), Relaxed);
        Matches::new(chains, matched, block_tokens)
    }

    /// A request was sent to an endpoint, which will hold its blocks soon.
    pub(crate) fn learn(&self, slot: Slot, matches: &Matches, now: u64) {
        let mut known = self.known.write();
        let Known { index, expected } = &mut *known;
        // The order of use matters only where something must make room.
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

    pub(crate) fn forget(&self, slot: Slot) {
        let mut known = self.known.write();
        known.index.forget(slot.0);
        known.expected.forget(slot.0);
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
