//! The knowledge of prefix producers, from any source.

use std::sync::Arc;

use crate::{
    burst::BurstSettings,
    endpoint::{Metrics, Slot, Snapshot},
    precise::{Holdings, PreciseSettings},
    prefix::{Matches, PrefixIndex, Settings},
    request::Request,
};

/// The source of a prefix producer's knowledge.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PrefixSource {
    /// The destinations of earlier requests.
    Guessed(Settings),
    /// The events of the engines.
    Told(PreciseSettings),
    /// The placement of requests that arrive together.
    Planned(BurstSettings),
}

impl PrefixSource {
    /// The most bytes of text that are read.
    pub(crate) fn text_limit(&self) -> usize {
        match self {
            Self::Guessed(settings) => settings.text_limit(),
            Self::Told(_) => usize::MAX,
            Self::Planned(settings) => settings.text_limit(),
        }
    }
}

/// The knowledge of a prefix producer.
#[derive(Debug, Clone)]
pub(crate) enum Prefixes {
    Guessed(PrefixIndex),
    /// Shared with the tasks that receive the engines' events.
    Told(Arc<Holdings>),
    /// Nothing: each request says itself where it should go.
    Planned(BurstSettings),
}

impl From<PrefixSource> for Prefixes {
    fn from(source: PrefixSource) -> Self {
        match source {
            PrefixSource::Guessed(settings) => Self::Guessed(PrefixIndex::new(settings)),
            PrefixSource::Told(settings) => Self::Told(Arc::new(Holdings::new(settings))),
            PrefixSource::Planned(settings) => Self::Planned(settings),
        }
    }
}

impl Prefixes {
    /// The number of known prefixes, over all endpoints.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Guessed(index) => index.len(),
            Self::Told(holdings) => holdings.len(),
            Self::Planned(_) => 0,
        }
    }

    /// The number of prefixes that an endpoint holds.
    pub(crate) fn held(&self, slot: Slot) -> usize {
        match self {
            Self::Guessed(index) => index.held(slot),
            Self::Told(holdings) => holdings.held(slot),
            Self::Planned(_) => 0,
        }
    }

    pub(crate) fn matches(&self, request: &Request<'_>, candidates: &[Snapshot], now: u64) -> Matches {
        match self {
            Self::Guessed(index) => index.matches(request, candidates),
            Self::Told(holdings) => holdings.matches(request, candidates, now),
            Self::Planned(settings) => settings.matches(request, candidates),
        }
    }

    /// Counts the forks of a request. Only guessed prefixes have forks.
    pub(crate) fn fork(&mut self, matches: &Matches) {
        if let Self::Guessed(index) = self {
            index.fork(matches);
        }
    }

    /// Records that a request was sent to an endpoint.
    pub(crate) fn learn(&mut self, slot: Slot, matches: &Matches, metrics: &Metrics, now: u64) {
        match self {
            Self::Guessed(index) => index.learn(slot, matches, metrics),
            Self::Told(holdings) => holdings.learn(slot, matches, now),
            Self::Planned(_) => {}
        }
    }

    pub(crate) fn forget(&mut self, slot: Slot) {
        match self {
            Self::Guessed(index) => index.forget(slot),
            Self::Told(holdings) => holdings.forget(slot),
            Self::Planned(_) => {}
        }
    }
}
