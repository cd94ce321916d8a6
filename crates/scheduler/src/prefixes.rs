//! What prefix producers remember, whichever way they know it.

use std::sync::Arc;

use crate::{
    burst::BurstSettings,
    endpoint::{Metrics, Slot, Snapshot},
    precise::{Holdings, PreciseSettings},
    prefix::{Matches, PrefixIndex, Settings},
    request::Request,
};

/// How a prefix producer knows who holds what.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PrefixSource {
    /// From where requests were sent.
    Guessed(Settings),
    /// From the engines.
    Told(PreciseSettings),
    /// From which requests came at once: where they should go together.
    Planned(BurstSettings),
}

impl PrefixSource {
    /// How many bytes of text it looks at.
    pub(crate) fn text_limit(&self) -> usize {
        match self {
            Self::Guessed(settings) => settings.text_limit(),
            Self::Told(_) => usize::MAX,
            Self::Planned(settings) => settings.text_limit(),
        }
    }
}

/// What a prefix producer knows.
#[derive(Debug, Clone)]
pub(crate) enum Prefixes {
    Guessed(PrefixIndex),
    /// Shared with whoever follows the engines.
    Told(Arc<Holdings>),
    /// Nothing: each request says where it should go.
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
    /// How many prefixes are known, over all endpoints.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Guessed(index) => index.len(),
            Self::Told(holdings) => holdings.len(),
            Self::Planned(_) => 0,
        }
    }

    /// How many prefixes an endpoint holds.
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

    /// A request leaves what is known somewhere. What engines say has no forks.
    pub(crate) fn fork(&mut self, matches: &Matches) {
        if let Self::Guessed(index) = self {
            index.fork(matches);
        }
    }

    /// An endpoint was sent a request.
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
