//! `no-hit-lru-scorer`: sends requests without a cached prefix to the endpoints that were used longest ago.

use serde_json::{Value, json};

use super::cold;
use crate::{prefix::Matches, prelude::*};

parameters! {
    struct RawParameters {
        lru_size: usize = 1024,
        prefix_match_info_producer_name: Option<String>,
        // Former spellings of the producer's name, which upstream reads and ignores.
        #[serde(rename = "prefixPluginType")]
        _prefix_plugin_type: Option<String>,
        #[serde(rename = "prefixPluginName")]
        _prefix_plugin_name: Option<String>,
    }
}

struct NoHitLru {
    prefix: usize,
    idle: usize,
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    parameters.above_zero("lruSize", raw.lru_size)?;
    let prefix = builder.prefix(parameters, raw.prefix_match_info_producer_name.as_deref())?;
    let idle = builder.add(parameters, IdleOrderSettings { capacity: raw.lru_size, prefix });
    Ok(Plugin::scorer(NoHitLru { prefix, idle }))
}

impl Scorer for NoHitLru {
    fn score(&self, context: &Context<'_>, candidates: &[Candidate], scores: &mut [f64]) {
        let order = context.state.producer::<IdleOrder>(self.idle);
        let order = order.map_or(&[][..], |idle| &idle.order);
        // The key is the position in the order of use. Endpoints that were never used come first.
        let key =
            |slot| order.iter().position(|&used| used == slot).map_or(0.0, |rank| float(rank as u64 + 1));
        cold::rank(context, self.prefix, candidates, scores, key);
    }
}

/// Whose order of use is remembered.
#[derive(Debug, Clone)]
struct IdleOrderSettings {
    /// The most endpoints in the order.
    capacity: usize,
    /// The prefix producer that shows which requests are cold.
    prefix: usize,
}

/// The endpoints that took cold requests, in order of use.
#[derive(Debug, Clone)]
struct IdleOrder {
    settings: IdleOrderSettings,
    /// The endpoint that was used longest ago comes first.
    order: Vec<Slot>,
}

impl Producer for IdleOrderSettings {
    fn state(&self) -> Box<dyn ProducerState> {
        Box::new(IdleOrder { settings: self.clone(), order: Vec::new() })
    }

    fn is_timed(&self) -> bool {
        false
    }
}

impl ProducerState for IdleOrder {
    fn learn(&mut self, _: &Finding, decision: &Decision) {
        let matches = decision.findings.get(self.settings.prefix).and_then(Finding::get::<Matches>);
        if !matches.is_some_and(Matches::is_cold) {
            return;
        }
        for holder in &decision.prefix_holders {
            self.forget(holder.slot);
            self.order.push(holder.slot);
            if self.order.len() > self.settings.capacity {
                self.order.remove(0);
            }
        }
    }

    fn forget(&mut self, slot: Slot) {
        self.order.retain(|&used| used != slot);
    }

    fn describe(&self, endpoints: &Listing<'_>) -> Option<Value> {
        let order = endpoints.names(&self.order);
        Some(json!({"longestUnusedFirst": order, "capacity": self.settings.capacity}))
    }
}
