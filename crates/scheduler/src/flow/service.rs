//! The service that each flow has received, in tokens. The weight of old tokens decays.

use std::{collections::HashMap, sync::Arc};

use super::settings::LeastService;
use crate::numbers::{Range, float};

/// The most flows that are remembered, because clients choose the names. Further flows count as never served.
const MAX_FLOWS: usize = 10_000;

/// The service of all flows, for fairness policies that use it.
#[derive(Debug, Clone, Default)]
pub(super) struct FlowServices {
    flows: HashMap<Arc<str>, Service>,
    swept: u64,
}

#[derive(Debug, Clone, Copy)]
struct Service {
    tokens: f64,
    /// The time for which `tokens` is valid, in milliseconds.
    at: u64,
    /// The number of dispatched requests, and the total time that they waited.
    waits: u64,
    waited_ms: u64,
}

/// The service of a flow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowService {
    /// The tokens, with decay.
    pub tokens: f64,
    /// The number of dispatched requests.
    pub requests: u64,
    /// The total time that these requests waited, in milliseconds.
    pub waited_ms: u64,
}

impl Service {
    fn now(self, policy: &LeastService, now: u64) -> f64 {
        if policy.half_life_ms > 0.0 {
            return self.tokens * (-float(now.saturating_sub(self.at)) / policy.half_life_ms).exp2();
        }
        self.tokens
    }
}

impl FlowServices {
    /// Adds the service of an answered request. Generated tokens count twice.
    pub(super) fn add(&mut self, policy: &LeastService, flow: &str, (input, output): (u64, u64), now: u64) {
        let since = |past: u64| float(now.saturating_sub(past));
        if policy.forget_ms > 0.0 && since(self.swept) >= policy.sweep_ms {
            self.flows.retain(|_, service| since(service.at) < policy.forget_ms);
            self.swept = now;
        }
        // The factor is llm-d's. A generated token takes a pass of the model, and the tokens of a prompt share one.
        let more = float(input) + 2.0 * float(output);
        if let Some(service) = self.flows.get_mut(flow) {
            *service = Service { tokens: service.now(policy, now) + more, at: now, ..*service };
        } else if self.flows.len() < MAX_FLOWS {
            self.flows.insert(Arc::from(flow), Service { tokens: more, at: now, waits: 0, waited_ms: 0 });
        }
    }

    /// Records that a request of a flow was dispatched after this wait.
    pub(super) fn record_dispatch(&mut self, flow: &Arc<str>, waited_ms: u64, now: u64) {
        if let Some(service) = self.flows.get_mut(flow) {
            service.waits += 1;
            service.waited_ms = service.waited_ms.saturating_add(waited_ms);
        } else if self.flows.len() < MAX_FLOWS {
            self.flows.insert(Arc::clone(flow), Service { tokens: 0.0, at: now, waits: 1, waited_ms });
        }
    }

    /// Returns the service of each flow.
    pub(super) fn all(&self, policy: &LeastService, now: u64) -> Vec<(Arc<str>, FlowService)> {
        let served = |service: &Service| FlowService {
            tokens: service.now(policy, now),
            requests: service.waits,
            waited_ms: service.waited_ms,
        };
        self.flows.iter().map(|(flow, service)| (Arc::clone(flow), served(service))).collect()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    fn of(&self, policy: &LeastService, flow: &str, now: u64) -> f64 {
        self.flows.get(flow).map_or(0.0, |service| service.now(policy, now))
    }

    /// Returns the next flow: one with little service and a long wait. `flows` has the arrival time of each flow's first
    /// request.
    pub(super) fn next<'f>(
        &self,
        policy: &LeastService,
        flows: impl Iterator<Item = (&'f Arc<str>, u64)>,
        now: u64,
    ) -> Option<&'f Arc<str>> {
        let known: Vec<_> = flows
            .map(|(flow, since)| (flow, self.of(policy, flow, now), float(now.saturating_sub(since))))
            .collect();
        let service = Range::of(known.iter().map(|(_, service, _)| *service));
        let wait = Range::of(known.iter().map(|(_, _, wait)| *wait));
        let score = |(_, served, waited): &(&Arc<str>, f64, f64)| {
            policy.service_weight * (1.0 - position(service, *served))
                + policy.wait_weight * position(wait, *waited)
        };
        let mut best: Option<(&Arc<str>, f64)> = None;
        for entry in &known {
            let score = score(entry);
            if best.is_none_or(|(_, highest)| score > highest) {
                best = Some((entry.0, score));
            }
        }
        best.map(|(flow, _)| flow)
    }
}

/// Returns 0 for the lowest value and 1 for the highest. Returns 0 if all values are equal.
fn position(range: Range, value: f64) -> f64 {
    if range.width() > 0.0 { range.position(value) } else { 0.0 }
}
