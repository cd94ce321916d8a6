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
//! A prefix that many prompts share, such as a system prompt, does not show where a prompt should go: the first endpoint
//! that holds it would get all these prompts. If the settings ask for it, such a prefix does not count as affinity. It is
//! recognized by its forks: prompts that match up to a block and then differ. The turns of one conversation fork at most
//! once or twice at a block, because each turn is longer than the one before.

use xxhash_rust::xxh64::xxh64;

mod tree;

use tree::Tree;

use crate::{
    endpoint::{Slot, Snapshot},
    finding::Finding,
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
    /// The number of forks at a block from which on the prefix up to this block counts as shared by many prompts. 0 turns
    /// this off.
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
    /// For each prompt, the number of known blocks before the prompt differs from all remembered ones. 0 for a prompt that
    /// does not differ, and for one of which nothing is known.
    forks: Vec<usize>,
    /// Whether a prompt leaves all remembered ones before the end of the one that it matches longest.
    leaves: bool,
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
            leaves: false,
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
    pub(crate) fn cached(findings: &[Finding]) -> Option<&Self> {
        findings.iter().filter_map(Finding::get::<Self>).find(|matches| matches.is_cached())
    }

    /// Whether the matches say which blocks are cached. Otherwise they say where blocks are planned to be.
    pub(crate) fn is_cached(&self) -> bool {
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

    /// Returns the most blocks that a candidate holds.
    pub(crate) fn best(&self) -> u32 {
        self.matched.iter().copied().max().unwrap_or_default()
    }

    /// Returns the number of tokens in the blocks that a candidate holds.
    pub(crate) fn matched_tokens(&self, candidate: usize) -> u64 {
        u64::from(self.matched(candidate)) * u64::from(self.block_tokens)
    }

    /// Returns the tokens of a prompt of this length that a candidate has to compute. As in llm-d, a block that is not full counts as
    /// a full one.
    pub(crate) fn uncached_tokens(&self, candidate: usize, prompt: u64) -> u64 {
        let known = u64::from(self.total) * u64::from(self.block_tokens);
        known.saturating_sub(self.matched_tokens(candidate)) + prompt.saturating_sub(known)
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

    /// Whether the request probably begins a conversation: no candidate knows anything of it but what many prompts share, or it
    /// leaves a remembered prompt in its middle, where the next turn of a conversation goes on at its end.
    pub(crate) fn begins_conversation(&self) -> bool {
        self.own_total > 1 && (self.leaves || self.is_cold())
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
    tree: Tree,
}

impl PrefixIndex {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, tree: Tree::default() }
    }

    /// The number of remembered prefixes, over all endpoints.
    pub(crate) fn len(&self) -> usize {
        self.tree.len()
    }

    /// The number of prefixes that an endpoint holds.
    pub(crate) fn held(&self, slot: Slot) -> usize {
        self.tree.held(slot)
    }

    /// Computes a request's hashes and looks up their holders. All candidates need the same block size to be comparable, so
    /// the first candidate's block size is used for all.
    pub(crate) fn matches(&self, request: &Request<'_>, candidates: &[Snapshot]) -> Matches {
        let block_tokens = self.block_tokens(candidates);
        let root = root(request.model, request.cache_salt);
        let limit = self.max_blocks(block_tokens);
        let chains: Vec<Vec<u64>> =
            request.prompts.iter().map(|prompt| chain(root, prompt, block_tokens, limit)).collect();
        let mut matches = Matches::new(chains, vec![0; candidates.len()], block_tokens);
        // Taken out while `walk` changes the rest.
        let chains = std::mem::take(&mut matches.chains);
        for hashes in &chains {
            self.walk(hashes, candidates, &mut matches);
        }
        Matches { chains, ..matches }
    }

    /// Counts the leading blocks of one prompt that each candidate holds.
    fn walk(&self, hashes: &[u64], candidates: &[Snapshot], matches: &mut Matches) {
        let shared = self.shared(hashes, matches);
        matches.own_total -= count(shared);
        let mut holding: Vec<usize> = (0..candidates.len()).collect();
        let mut depth = 0;
        for (node, known) in self.tree.path(hashes) {
            let mut near = 0;
            holding.retain(|&candidate| {
                let held = node.held(candidates[candidate].endpoint.slot, &mut near);
                let end = depth + held.min(known);
                matches.matched[candidate] += count(end - depth);
                matches.own[candidate] += count(end.saturating_sub(shared.max(depth)));
                held == node.len()
            });
            if holding.is_empty() {
                break;
            }
            depth += known;
        }
    }

    /// Returns the number of leading blocks that many prompts share. Records where the prompt goes on differently.
    fn shared(&self, hashes: &[u64], matches: &mut Matches) -> usize {
        if self.settings.shared_after == 0 {
            return 0;
        }
        let (mut shared, mut depth, mut leaves) = (0, 0, false);
        for (node, known) in self.tree.path(hashes) {
            depth += known;
            if known == node.len() && node.forks() >= self.settings.shared_after {
                shared = depth;
            }
            // The last block of a prompt is often partial, and then the next turn has another one.
            leaves = if known == node.len() { node.forks() > 0 } else { known + 1 < node.len() };
        }
        let goes_on = depth < hashes.len();
        matches.leaves |= goes_on && leaves;
        matches.forks.push(if goes_on { depth } else { 0 });
        shared
    }

    /// Counts the forks of a request. Called once per request, before [`learn`](Self::learn).
    pub(crate) fn fork(&mut self, matches: &Matches) {
        for (hashes, known) in matches.chains.iter().zip(&matches.forks) {
            self.tree.fork(&hashes[..*known]);
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
        let mut newest = 0;
        for hashes in &matches.chains {
            newest += hashes.len();
            self.tree.learn(slot, hashes);
        }
        // The prompt that was just sent stays even if it is longer than the capacity: the engine computes it now.
        self.tree.forget(slot, self.tree.held(slot).saturating_sub(capacity.max(newest)));
    }

    pub(crate) fn forget(&mut self, slot: Slot) {
        self.tree.forget(slot, self.tree.held(slot));
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
            // The reference hashes text as numbers of four bytes, and fills the last one with zeros.
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

#[cfg(test)]
mod tests;
