//! Requests that arrive together and share a prompt, such as the samples of one training step.
//!
//! At that moment no cache holds the prompt, so the prefix index does not keep these requests together, and each endpoint
//! would compute the prompt again. So requests wait for a short window and then get endpoints together. The owner of the
//! clock opens a [`Burst`] for each window and ends it with [`Burst::place`].

mod layout;

use std::time::Duration;

use crate::{
    endpoint::{Slot, Snapshot},
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
        let here = |candidate: &Snapshot| request.together == Some(candidate.endpoint.slot);
        let matched = candidates.iter().map(|candidate| if here(candidate) { total } else { 0 }).collect();
        Matches::planned(total, matched, self.block_tokens)
    }
}

/// The requests of one window.
#[derive(Debug)]
pub struct Burst {
    settings: BurstSettings,
    /// The blocks of each request. Empty for a request that has left.
    requests: Vec<Vec<u64>>,
    /// The endpoints to choose from. They come from the first request with blocks.
    candidates: Vec<Snapshot>,
    placed: Option<Vec<Option<Slot>>>,
}

impl Burst {
    /// Creates a burst without requests.
    pub fn new(settings: BurstSettings) -> Self {
        Self { settings, requests: Vec::new(), candidates: Vec::new(), placed: None }
    }

    /// Adds a request and returns its number. Returns `None` if the burst is full or its window is over.
    pub fn join(&mut self, blocks: Vec<u64>, candidates: &[Snapshot]) -> Option<usize> {
        if self.is_placed() || self.requests.len() >= self.settings.max_requests {
            return None;
        }
        if self.candidates.is_empty() && !blocks.is_empty() {
            self.candidates = candidates.to_vec();
        }
        self.requests.push(blocks);
        Some(self.requests.len() - 1)
    }

    /// Removes a request that no longer waits.
    pub fn leave(&mut self, number: usize) {
        if let Some(blocks) = self.requests.get_mut(number) {
            *blocks = Vec::new();
        }
    }

    /// Ends the window and assigns endpoints to the requests. Further calls do nothing.
    pub fn place(&mut self) {
        if self.placed.is_none() {
            self.placed = Some(layout::place(&self.settings, &self.candidates, &self.requests));
            self.candidates = Vec::new();
            self.requests = Vec::new();
        }
    }

    /// Whether the window is over.
    pub fn is_placed(&self) -> bool {
        self.placed.is_some()
    }

    /// Returns the endpoint of a request. Returns `None` if no other request shares its prompt, or if the window is not over.
    pub fn endpoint(&self, number: usize) -> Option<Slot> {
        *self.placed.as_ref()?.get(number)?
    }
}

#[cfg(test)]
mod tests;
