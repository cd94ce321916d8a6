//! The data that plugins can read during a pick.

use std::cell::{Cell, RefCell};

use rand::RngCore;

use crate::{
    endpoint::{Candidate, Endpoint, Metrics, Snapshot},
    finding::Finding,
    latency::LatencyHeadroom,
    prefix::Matches,
    request::Request,
    state::State,
};

/// The data for filters, scorers and deciders.
pub(crate) struct Context<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) candidates: &'a [Snapshot],
    pub(crate) state: &'a State,
    /// What each producer has found about the request.
    pub(crate) findings: &'a [Finding],
    /// The headroom of each candidate. `None` if the predictor did not answer about the candidate.
    pub(crate) headrooms: &'a [Option<LatencyHeadroom>],
    /// The prefix producer that says which part of a prompt is no load. `None` for the first one that knows what is cached.
    pub(crate) load_prefix: Option<usize>,
    /// The tokens that the request is estimated to generate, if they count as load.
    pub(crate) output_tokens: u64,
    /// The endpoint that an earlier profile picked, for plugins that prefer endpoints near it.
    pub(crate) peer: Cell<Option<Candidate>>,
    /// The current time in milliseconds since any fixed moment. Used for expiry.
    pub(crate) now: u64,
    /// Filters and scorers run one after the other, so the cell is never borrowed twice.
    pub(crate) random: RefCell<&'a mut dyn RngCore>,
}

impl Context<'_> {
    pub(crate) fn endpoint(&self, candidate: Candidate) -> &Endpoint {
        &self.candidates[candidate].endpoint
    }

    pub(crate) fn metrics(&self, candidate: Candidate) -> &Metrics {
        &self.candidates[candidate].metrics
    }

    /// Returns the matches that a prefix producer has found.
    pub(crate) fn prefix(&self, producer: usize) -> &Matches {
        self.findings[producer].get().expect("the registry has given the place of a prefix producer")
    }

    /// Returns the tokens of the prompt that a candidate has to compute.
    pub(crate) fn uncached_tokens(&self, candidate: Candidate) -> u64 {
        let prompt = self.request.tokens() as u64;
        let matches = match self.load_prefix {
            Some(producer) => Some(self.prefix(producer)),
            None => Matches::cached(self.findings),
        };
        matches.map_or(prompt, |matches| matches.uncached_tokens(candidate, prompt))
    }

    /// Returns the predicted latency of a candidate.
    pub(crate) fn latency_headroom(&self, candidate: Candidate) -> Option<&LatencyHeadroom> {
        self.headrooms.get(candidate)?.as_ref()
    }

    /// Returns a random number from 0 (inclusive) to 1 (exclusive).
    pub(crate) fn random_share(&self) -> f64 {
        use rand::Rng as _;
        self.random.borrow_mut().random()
    }

    pub(crate) fn shuffle<T>(&self, items: &mut [T]) {
        use rand::seq::SliceRandom as _;
        items.shuffle(&mut **self.random.borrow_mut());
    }
}
