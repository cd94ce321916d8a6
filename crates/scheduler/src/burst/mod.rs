//! Requests that come together and share a prompt, such as the samples of one training step.
//!
//! All caches are cold at that moment, so nothing that is known about caches keeps such requests together: each endpoint would
//! compute the prompt again. So requests wait for a short window, and are then given endpoints together. Whoever owns the clock
//! opens a [`Burst`] for each window, and ends it with [`Burst::place`].

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
    /// How long the first request of a burst waits, and all others at most.
    pub window: Duration,
    /// The most requests with one prompt on one endpoint.
    pub(crate) per_endpoint: usize,
    pub(crate) block_tokens: u32,
    /// The most blocks of a prompt that are compared.
    pub(crate) max_blocks: usize,
    /// The fewest leading blocks that keep requests with different prompts together; 0: they are kept apart.
    pub(crate) shared_blocks: usize,
    /// The most requests of one burst.
    pub(crate) max_requests: usize,
    pub(crate) balance: Balance,
}

/// What is spread evenly over the endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Balance {
    Requests,
    /// Blocks of prompts that an endpoint has to compute.
    Blocks,
}

impl BurstSettings {
    /// How many bytes of text are looked at.
    pub(crate) fn text_limit(&self) -> usize {
        self.max_blocks.saturating_mul(self.block_tokens as usize).saturating_mul(4)
    }

    /// The blocks of a request's prompts, by which requests are compared.
    pub fn blocks(&self, request: &Request<'_>) -> Vec<u64> {
        let root = prefix::root(request.model, request.cache_salt);
        let blocks = |prompt| prefix::chain(root, prompt, self.block_tokens, self.max_blocks);
        request.prompts.iter().flat_map(blocks).collect()
    }

    /// A request that was placed matches whole where it was placed, and nowhere else.
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
    /// The blocks of each request; none of one that left.
    requests: Vec<Vec<u64>>,
    /// The endpoints to choose from: those of the first request that can share anything.
    candidates: Vec<Snapshot>,
    placed: Option<Vec<Option<Slot>>>,
}

impl Burst {
    /// No request came yet.
    pub fn new(settings: BurstSettings) -> Self {
        Self { settings, requests: Vec::new(), candidates: Vec::new(), placed: None }
    }

    /// Takes a request in, and gives it a number. `None`: there is no room, or the window is over.
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

    /// Nobody waits for this request any more.
    pub fn leave(&mut self, number: usize) {
        if let Some(blocks) = self.requests.get_mut(number) {
            *blocks = Vec::new();
        }
    }

    /// Ends the window: gives endpoints to the requests, once.
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

    /// The endpoint of a request. `None`: it shares its prompt with nobody, or the window is not over.
    pub fn endpoint(&self, number: usize) -> Option<Slot> {
        *self.placed.as_ref()?.get(number)?
    }
}

#[cfg(test)]
mod tests;
