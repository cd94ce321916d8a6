//! The knowledge of prefix producers, from any source.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    burst::BurstSettings,
    decision::Decision,
    endpoint::{Slot, Snapshot},
    finding::Finding,
    listing::Listing,
    precise::{Holdings, PreciseSettings},
    prefix::{Matches, PrefixIndex, Settings},
    producer::{Producer, ProducerState},
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

impl Producer for PrefixSource {
    fn state(&self) -> Box<dyn ProducerState> {
        Box::new(match self.clone() {
            Self::Guessed(settings) => Prefixes::Guessed(PrefixIndex::new(settings)),
            Self::Told(settings) => Prefixes::Told(Arc::new(Holdings::new(settings))),
            Self::Planned(settings) => Prefixes::Planned(settings),
        })
    }

    fn text_limit(&self) -> usize {
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
    fn held(&self, slot: Slot) -> usize {
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
}

impl ProducerState for Prefixes {
    fn find(&self, request: &Request<'_>, candidates: &[Snapshot], now: u64) -> Finding {
        Finding::new(self.matches(request, candidates, now))
    }

    fn learn(&mut self, finding: &Finding, decision: &Decision) {
        let Some(matches) = finding.get() else { return };
        // Only guessed prefixes have forks.
        if let Self::Guessed(index) = self {
            index.fork(matches);
        }
        for holder in &decision.prefix_holders {
            match self {
                Self::Guessed(index) => index.learn(holder.slot, matches, &holder.metrics),
                Self::Told(holdings) => holdings.learn(holder.slot, matches, decision.now),
                Self::Planned(_) => {}
            }
        }
    }

    fn describe(&self, endpoints: &Listing<'_>) -> Option<Value> {
        if matches!(self, Self::Planned(_)) {
            return None;
        }
        let blocks = endpoints.counts(|slot| self.held(slot).into());
        Some(json!({"blocks": blocks, "totalBlocks": self.len()}))
    }

    fn forget(&mut self, slot: Slot) {
        match self {
            Self::Guessed(index) => index.forget(slot),
            Self::Told(holdings) => holdings.forget(slot),
            Self::Planned(_) => {}
        }
    }
}
