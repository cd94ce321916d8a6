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
    Approximate(Settings),
    /// The events of the engines.
    Precise(PreciseSettings),
    /// The placement of requests that arrive together.
    Burst(BurstSettings),
}

impl Producer for PrefixSource {
    fn state(&self) -> Box<dyn ProducerState> {
        Box::new(match self.clone() {
            Self::Approximate(settings) => Prefixes::Approximate(PrefixIndex::new(settings)),
            Self::Precise(settings) => Prefixes::Precise(Arc::new(Holdings::new(settings))),
            Self::Burst(settings) => Prefixes::Burst(settings),
        })
    }

    fn text_limit(&self) -> usize {
        match self {
            Self::Approximate(settings) => settings.text_limit(),
            Self::Precise(_) => usize::MAX,
            Self::Burst(settings) => settings.text_limit(),
        }
    }
}

/// The knowledge of a prefix producer.
#[derive(Debug, Clone)]
pub(crate) enum Prefixes {
    Approximate(PrefixIndex),
    /// Shared with the tasks that receive the engines' events.
    Precise(Arc<Holdings>),
    /// Nothing: each request says itself where it should go.
    Burst(BurstSettings),
}

impl Prefixes {
    /// The number of known prefixes, over all endpoints.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Approximate(index) => index.len(),
            Self::Precise(holdings) => holdings.len(),
            Self::Burst(_) => 0,
        }
    }

    /// The number of prefixes that an endpoint holds.
    fn held(&self, slot: Slot) -> usize {
        match self {
            Self::Approximate(index) => index.held(slot),
            Self::Precise(holdings) => holdings.held(slot),
            Self::Burst(_) => 0,
        }
    }

    pub(crate) fn matches(&self, request: &Request<'_>, candidates: &[Snapshot], now: u64) -> Matches {
        match self {
            Self::Approximate(index) => index.matches(request, candidates),
            Self::Precise(holdings) => holdings.matches(request, candidates, now),
            Self::Burst(settings) => settings.matches(request, candidates),
        }
    }
}

impl ProducerState for Prefixes {
    fn find(&self, request: &Request<'_>, candidates: &[Snapshot], now: u64) -> Finding {
        let matches = self.matches(request, candidates, now);
        if let Self::Precise(holdings) = self {
            holdings.count(&matches);
        }
        Finding::new(matches)
    }

    fn learn(&mut self, finding: &Finding, decision: &Decision) {
        let Some(matches) = finding.get() else { return };
        // Only approximate prefixes have forks.
        if let Self::Approximate(index) = self {
            index.fork(matches);
        }
        for holder in &decision.prefix_holders {
            match self {
                Self::Approximate(index) => index.learn(holder.slot, matches, &holder.metrics),
                Self::Precise(holdings) => holdings.learn(holder.slot, matches, decision.now),
                Self::Burst(_) => {}
            }
        }
    }

    fn describe(&self, endpoints: &Listing<'_>) -> Option<Value> {
        if matches!(self, Self::Burst(_)) {
            return None;
        }
        let blocks = endpoints.counts(|slot| self.held(slot).into());
        Some(json!({"blocks": blocks, "totalBlocks": self.len()}))
    }

    fn forget(&mut self, slot: Slot) {
        match self {
            Self::Approximate(index) => index.forget(slot),
            Self::Precise(holdings) => holdings.forget(slot),
            Self::Burst(_) => {}
        }
    }
}
