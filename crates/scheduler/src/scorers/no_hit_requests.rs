//! `no-hit-least-requests-scorer`, ours: sends requests without a cached prefix to the endpoints that were sent the fewest
//! requests lately.
//!
//! A conversation stays where it began, so what a new one adds to an endpoint's load comes later. Queues and use show only what
//! runs now, and the order of `no-hit-lru-scorer` only who took the last request without a cached prefix. Counts of all
//! requests show which endpoints have taken more than their share, such as the conversations that began before their system
//! prompt was known as shared, and new conversations make up for it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::cold;
use crate::{prefix::Matches, prelude::*};

parameters! {
    struct RawParameters {
        half_life_seconds: u32 = 60,
        prefix_match_info_producer_name: Option<String>,
    }
}

/// A request that begins a conversation counts as many, because its next turns will go to the same endpoint. With the number of
/// turns of a conversation, the counts tell the load that is to come. The simulations of `src/tests/herding.rs` have ten turns; with 6
/// in place of 10, the skew of conversations of mixed lengths was .108 in place of .082.
const CONVERSATION_REQUESTS: f64 = 10.0;

struct NoHitRequests {
    prefix: usize,
    counts: usize,
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    parameters.above_zero("halfLifeSeconds", raw.half_life_seconds)?;
    let prefix = builder.prefix(parameters, raw.prefix_match_info_producer_name.as_deref())?;
    let counts = builder
        .add(parameters, CountSettings { half_life_ms: u64::from(raw.half_life_seconds) * 1000, prefix });
    Ok(Plugin::scorer(NoHitRequests { prefix, counts }))
}

impl Scorer for NoHitRequests {
    fn score(&self, context: &Context<'_>, candidates: &[Candidate], scores: &mut [f64]) {
        let Some(counts) = context.state.producer::<RequestCounts>(self.counts) else { return };
        cold::rank(context, self.prefix, candidates, scores, |slot| counts.of(slot, context.now));
    }
}

/// How requests are counted.
#[derive(Debug, Clone, Copy)]
struct CountSettings {
    /// The time in which a request's share of a count halves.
    half_life_ms: u64,
    /// The prefix producer that shows which requests begin a conversation.
    prefix: usize,
}

impl CountSettings {
    fn decayed(self, (count, at): (f64, u64), now: u64) -> f64 {
        count * (-float(now.saturating_sub(at)) / float(self.half_life_ms)).exp2()
    }
}

/// How many requests each endpoint was sent lately.
#[derive(Debug, Clone)]
struct RequestCounts {
    settings: CountSettings,
    /// Each count with the time of its last change.
    counts: BTreeMap<Slot, (f64, u64)>,
}

impl RequestCounts {
    /// An endpoint that is new counts as if it had taken its share before. Otherwise it would get every new conversation until
    /// it has.
    fn of(&self, slot: Slot, now: u64) -> f64 {
        if let Some(count) = self.counts.get(&slot) {
            return self.settings.decayed(*count, now);
        }
        let all: f64 = self.counts.values().map(|count| self.settings.decayed(*count, now)).sum();
        all / float(self.counts.len().max(1) as u64)
    }
}

impl Producer for CountSettings {
    fn state(&self) -> Box<dyn ProducerState> {
        Box::new(RequestCounts { settings: *self, counts: BTreeMap::new() })
    }

    fn is_timed(&self) -> bool {
        false
    }
}

impl ProducerState for RequestCounts {
    /// Finds the endpoints that are new.
    fn find(&self, _: &Request<'_>, candidates: &[Snapshot], _: u64) -> Finding {
        let slots = candidates.iter().map(|candidate| candidate.endpoint.slot);
        Finding::new(slots.filter(|slot| !self.counts.contains_key(slot)).collect::<Vec<_>>())
    }

    fn learn(&mut self, finding: &Finding, decision: &Decision) {
        let now = decision.now;
        // All new endpoints get their count before one of them has a request more.
        let new = finding.get::<Vec<Slot>>().into_iter().flatten();
        let new: Vec<_> = new.map(|slot| (*slot, (self.of(*slot, now), now))).collect();
        self.counts.extend(new);
        let matches = decision.findings.get(self.settings.prefix).and_then(Finding::get::<Matches>);
        let weight =
            if matches.is_some_and(Matches::begins_conversation) { CONVERSATION_REQUESTS } else { 1.0 };
        for holder in &decision.prefix_holders {
            let count = self.of(holder.slot, now) + weight;
            self.counts.insert(holder.slot, (count, now));
        }
    }

    fn forget(&mut self, slot: Slot) {
        self.counts.remove(&slot);
    }

    fn describe(&self, endpoints: &Listing<'_>) -> Option<Value> {
        let count = |slot| self.counts.get(&slot).map_or(0.0, |(count, _)| count.round());
        Some(Value::Object(endpoints.counts(|slot| count(slot).into())))
    }
}
