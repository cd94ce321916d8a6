//! How requests are gathered and placed.

use std::time::Duration;

use crate::{
    endpoint::Snapshot,
    prefix::{self, Matches},
    request::Request,
};

/// How requests are gathered and placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BurstSettings {
    /// How long the first request of a burst waits. Later requests wait for the rest of this time.
    pub window: Duration,
    /// The most requests with one prompt on one endpoint.
    pub(crate) per_endpoint: usize,
    pub(crate) block_tokens: u32,
    /// The most blocks of a prompt that are compared.
    pub(crate) max_blocks: usize,
    /// Requests with different prompts stay together if they share at least this many leading blocks. 0 keeps them apart.
    pub(crate) shared_blocks: usize,
    /// The most requests of one burst.
    pub(crate) max_requests: usize,
    pub(crate) balance: Balance,
}

/// The measure that is spread evenly over the endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Balance {
    Requests,
    /// The prompt blocks that an endpoint has to compute.
    Blocks,
}

impl BurstSettings {
    /// The most bytes of text that are read.
    pub(crate) fn text_limit(&self) -> usize {
        self.max_blocks.saturating_mul(self.block_tokens as usize).saturating_mul(4)
    }

    /// Returns the blocks of a request's prompts. Requests are compared by them.
    pub fn blocks(&self, request: &Request<'_>) -> Vec<u64> {
        let root = prefix::root(request.model, request.cache_salt);
        let blocks = |prompt| prefix::chain(root, prompt, self.block_tokens, self.max_blocks);
        request.prompts.iter().flat_map(blocks).collect()
    }

    /// A placed request matches its own endpoint completely and no other endpoint.
    pub(crate) fn matches(&self, request: &Request<'_>, candidates: &[Snapshot]) -> Matches {
        let bytes = self.block_tokens as usize * 4;
        let blocks = |length: usize| length.div_ceil(bytes).min(self.max_blocks);
        let total: usize = request.prompts.iter().map(|prompt| blocks(prompt.bytes.len())).sum();
        let total = u32::try_from(total).unwrap_or(u32::MAX);
        let here = |candidate: &Snapshot| request.burst_endpoint == Some(candidate.endpoint.slot);
        let matched = candidates.iter().map(|candidate| if here(candidate) { total } else { 0 }).collect();
        Matches::planned(total, matched, self.block_tokens)
    }
}
