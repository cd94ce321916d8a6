//! Requests that arrive together and share a prompt, such as the samples of one training step.
//!
//! At that moment no cache holds the prompt, so the prefix index does not keep these requests together, and each endpoint
//! would compute the prompt again. So requests wait for a short window and then get endpoints together. The owner of the
//! clock opens a [`Burst`] for each window and ends it with [`Burst::place`].

mod layout;
mod settings;

pub(crate) use settings::Balance;
pub use settings::BurstSettings;

use crate::endpoint::{Slot, Snapshot};

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
