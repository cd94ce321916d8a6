//! The state that requests leave behind. The caller owns it. Only commits and releases change it.

use std::sync::Arc;

use ahash::AHashMap;

use crate::{
    endpoint::Slot,
    inflight::InFlight,
    precise::Holdings,
    prefixes::{PrefixSource, Prefixes},
};

/// The state of a scheduler. Created by [`Scheduler::state`](crate::Scheduler::state).
#[derive(Debug, Clone)]
pub struct State {
    pub(crate) prefixes: Vec<Prefixes>,
    pub(crate) idle: Vec<IdleOrder>,
    pub(crate) sessions: Vec<Sessions>,
    pub(crate) in_flight: InFlight,
}

impl State {
    pub(crate) fn new(prefixes: &[PrefixSource], idle: &[usize], sessions: usize) -> Self {
        Self {
            prefixes: prefixes.iter().cloned().map(Prefixes::from).collect(),
            idle: idle.iter().map(|&capacity| IdleOrder::new(capacity)).collect(),
            sessions: (0..sessions).map(|_| Sessions::default()).collect(),
            in_flight: InFlight::default(),
        }
    }

    /// Removes all state of an endpoint that is gone, so that its slot can be given to another endpoint.
    pub fn forget(&mut self, slot: Slot) {
        for prefixes in &mut self.prefixes {
            prefixes.forget(slot);
        }
        for idle in &mut self.idle {
            idle.order.retain(|&used| used != slot);
        }
        for sessions in &mut self.sessions {
            sessions.by_id.retain(|_, session| session.slot != slot);
        }
        self.in_flight.forget(slot);
    }

    /// The number of remembered prompt prefixes, over all endpoints.
    pub fn prefix_blocks(&self) -> usize {
        self.prefixes.iter().map(Prefixes::len).sum()
    }

    /// The indexes of the precise prefix producers. The caller keeps them up to date.
    pub fn holdings(&self) -> Vec<Arc<Holdings>> {
        let told = self.prefixes.iter().filter_map(|prefixes| match prefixes {
            Prefixes::Guessed(_) | Prefixes::Planned(_) => None,
            Prefixes::Told(holdings) => Some(Arc::clone(holdings)),
        });
        told.collect()
    }

    /// Returns the requests in flight at an endpoint, and their uncached prompt tokens.
    pub fn in_flight(&self, slot: Slot) -> (u64, u64) {
        let load = self.in_flight.get(slot);
        (load.requests, load.tokens)
    }
}

/// The endpoints that took cold requests, in order of use.
#[derive(Debug, Clone)]
pub(crate) struct IdleOrder {
    capacity: usize,
    /// The endpoint that was used longest ago comes first.
    pub(crate) order: Vec<Slot>,
}

impl IdleOrder {
    fn new(capacity: usize) -> Self {
        Self { capacity, order: Vec::new() }
    }

    pub(crate) fn touch(&mut self, slot: Slot) {
        self.order.retain(|&used| used != slot);
        self.order.push(slot);
        if self.order.len() > self.capacity {
            self.order.remove(0);
        }
    }
}

/// The endpoints of sessions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sessions {
    pub(crate) by_id: AHashMap<String, Session>,
    swept: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Session {
    pub(crate) slot: Slot,
    pub(crate) expires: u64,
}

/// How often expired sessions are removed, in milliseconds.
const SWEEP_MS: u64 = 10_000;

impl Sessions {
    pub(crate) fn get(&self, id: &str, now: u64) -> Option<Slot> {
        self.by_id.get(id).filter(|session| session.expires > now).map(|session| session.slot)
    }

    pub(crate) fn remember(&mut self, id: String, slot: Slot, expires: u64, now: u64) {
        if now.saturating_sub(self.swept) > SWEEP_MS {
            self.by_id.retain(|_, session| session.expires > now);
            self.swept = now;
        }
        self.by_id.insert(id, Session { slot, expires });
    }
}
