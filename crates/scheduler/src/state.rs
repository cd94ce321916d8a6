//! The state that requests leave behind. The caller owns it. Only commits and releases change it.

use std::sync::Arc;

use ahash::AHashMap;

use crate::{
    endpoint::Slot,
    inflight::{Flow, InFlight},
    media::EncoderCaches,
    precise::Holdings,
    prefixes::{PrefixSource, Prefixes},
};

/// The state of a scheduler. Created by [`Scheduler::state`](crate::Scheduler::state).
#[derive(Debug, Clone)]
pub struct State {
    pub(crate) prefixes: Vec<Prefixes>,
    pub(crate) idle: Vec<IdleOrder>,
    pub(crate) sessions: Vec<Sessions>,
    pub(crate) encoder_caches: Vec<EncoderCaches>,
    pub(crate) in_flight: InFlight,
}

impl State {
    pub(crate) fn new(
        prefixes: &[PrefixSource],
        idle: &[usize],
        sessions: usize,
        encoder_caches: &[usize],
    ) -> Self {
        Self {
            prefixes: prefixes.iter().cloned().map(Prefixes::from).collect(),
            idle: idle.iter().map(|&capacity| IdleOrder::new(capacity)).collect(),
            sessions: (0..sessions).map(|_| Sessions::default()).collect(),
            encoder_caches: encoder_caches.iter().map(|&items| EncoderCaches::new(items)).collect(),
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
            sessions.forget(slot);
        }
        for caches in &mut self.encoder_caches {
            caches.forget(slot);
        }
        self.in_flight.forget(slot);
    }

    /// The number of prompt prefixes that each prefix producer knows, over all endpoints.
    pub fn prefix_blocks(&self) -> impl Iterator<Item = usize> {
        self.prefixes.iter().map(Prefixes::len)
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

    /// Returns the part of each flow in what is in flight at an endpoint: requests, and their uncached prompt tokens.
    pub fn flows_in_flight(&self, slot: Slot) -> impl Iterator<Item = (&Flow, (u64, u64))> {
        self.in_flight.flows(slot).map(|(flow, load)| (flow, (load.requests, load.tokens)))
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

/// The endpoints of sessions. Clients choose the names of sessions, so the number is limited by two generations. When the
/// younger generation is full, it becomes the older one, and the former older one is dropped. A session that is used moves to
/// the younger generation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sessions {
    younger: AHashMap<String, Session>,
    older: AHashMap<String, Session>,
    swept: u64,
}

/// The most sessions of a generation.
const MAX_SESSIONS: usize = 50_000;
/// The longest name of a session. A longer name counts as none.
const MAX_NAME: usize = 1024;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Session {
    pub(crate) slot: Slot,
    pub(crate) expires: u64,
}

/// How often expired sessions are removed, in milliseconds.
const SWEEP_MS: u64 = 10_000;

impl Sessions {
    pub(crate) fn get(&self, id: &str, now: u64) -> Option<Slot> {
        let known = self.younger.get(id).or_else(|| self.older.get(id));
        known.filter(|session| session.expires > now).map(|session| session.slot)
    }

    /// The number of sessions.
    pub(crate) fn live(&self, now: u64) -> usize {
        let older = self.older.iter().filter(|(id, _)| !self.younger.contains_key(*id));
        let all = self.younger.iter().chain(older);
        all.filter(|(_, session)| session.expires > now).count()
    }

    fn forget(&mut self, slot: Slot) {
        self.younger.retain(|_, session| session.slot != slot);
        self.older.retain(|_, session| session.slot != slot);
    }

    pub(crate) fn remember(&mut self, id: String, slot: Slot, expires: u64, now: u64) {
        if id.len() > MAX_NAME {
            return;
        }
        if now.saturating_sub(self.swept) > SWEEP_MS {
            self.younger.retain(|_, session| session.expires > now);
            self.older.retain(|_, session| session.expires > now);
            self.swept = now;
        }
        if self.younger.len() >= MAX_SESSIONS && !self.younger.contains_key(&id) {
            self.older = std::mem::take(&mut self.younger);
        }
        self.younger.insert(id, Session { slot, expires });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_bounded_and_one_that_is_used_stays() {
        let mut sessions = Sessions::default();
        for number in 0..3 * MAX_SESSIONS {
            sessions.remember(number.to_string(), Slot(1), 100, 0);
            if number % 1000 == 0 {
                sessions.remember("used".to_owned(), Slot(2), 100, 0);
            }
        }
        assert!(sessions.younger.len() <= MAX_SESSIONS && sessions.older.len() <= MAX_SESSIONS);
        assert_eq!(sessions.get("used", 50), Some(Slot(2)));
        assert_eq!(sessions.get("0", 50), None, "it was used longest ago");
        assert_eq!(sessions.get("used", 100), None, "its time is over");
        sessions.remember("x".repeat(MAX_NAME + 1), Slot(1), 100, 0);
        assert_eq!(sessions.get(&"x".repeat(MAX_NAME + 1), 50), None);
        sessions.forget(Slot(1));
        assert_eq!(sessions.live(50), 1);
    }
}
