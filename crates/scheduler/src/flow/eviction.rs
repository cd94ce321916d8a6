//! Eviction: requests in flight that may be dropped make room for waiting requests of higher priority.
//!
//! Victims have a negative priority. The lowest priority is evicted first, and within it the request that was sent last,
//! because it loses the least work. Each decision evicts only a few requests. The next decision waits until all of them have
//! ended and the saturation has had time to show it. Acting twice on the same saturation would evict too many requests.

use std::{cmp::Reverse, collections::BTreeMap};

use crate::numbers::float;

/// The most victims per decision.
const MAX_VICTIMS: usize = 2;
/// How long a victim may take to end, in milliseconds. After that, it counts as ended.
const VICTIM_TIMEOUT_MS: u64 = 10_000;

/// Identifies a request in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[must_use = "a request that entered must leave"]
pub struct Lease {
    priority: i32,
    number: u64,
}

/// The highest priority band whose requests wait because of the saturation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClosedBand {
    /// The band's priority.
    pub priority: i32,
    /// The saturation from which on the band is closed.
    pub ceiling: f64,
}

/// The requests in flight, and those that were evicted. `T` is the value that the caller needs to evict a request.
#[derive(Debug)]
pub struct Eviction<T> {
    /// The time until the saturation shows that a request has ended, in milliseconds.
    grace_ms: u64,
    victims: BTreeMap<(i32, Reverse<u64>), T>,
    in_flight: usize,
    next: u64,
    /// The time of eviction of each victim that has not ended yet.
    evicting: BTreeMap<Lease, u64>,
    /// The time at which the saturation shows the end of the last victim.
    settled_at: u64,
    /// One request's share of the saturation at the last eviction.
    share: f64,
}

/// How a victim ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictionOutcome {
    /// The victim ended after this many milliseconds.
    After(u64),
    /// The victim took too long, so it counts as ended.
    Late,
}

impl<T> Eviction<T> {
    /// Creates the state without requests in flight. `grace_ms` is the time until the saturation shows that a request has
    /// ended.
    pub fn new(grace_ms: u64) -> Self {
        Self {
            grace_ms,
            victims: BTreeMap::new(),
            in_flight: 0,
            next: 0,
            evicting: BTreeMap::new(),
            settled_at: 0,
            share: 0.0,
        }
    }

    /// How many requests are in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    #[cfg(test)]
    pub(super) fn evictable(&self) -> usize {
        self.victims.len()
    }

    /// Returns the part of the saturation that the victims in flight will free.
    pub fn pending(&self) -> f64 {
        float(self.evicting.len() as u64) * self.share
    }

    /// Records that a request was sent to an endpoint.
    pub fn enter(&mut self, priority: i32, item: T) -> Lease {
        let lease = Lease { priority, number: self.next };
        self.next += 1;
        self.in_flight += 1;
        if priority < 0 {
            self.victims.insert((priority, Reverse(lease.number)), item);
        }
        lease
    }

    /// Records that the request has ended. If it was evicted, returns how it ended.
    pub fn leave(&mut self, lease: Lease, now: u64) -> Option<EvictionOutcome> {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.victims.remove(&(lease.priority, Reverse(lease.number)));
        let since = self.evicting.remove(&lease)?;
        self.settled_at = self.settled_at.max(now.saturating_add(self.grace_ms));
        Some(EvictionOutcome::After(now.saturating_sub(since)))
    }

    /// Returns the victims that took too long to end. From now on they count as ended.
    pub fn late(&mut self, now: u64) -> Vec<EvictionOutcome> {
        let before = self.evicting.len();
        self.evicting.retain(|_, since| now.saturating_sub(*since) < VICTIM_TIMEOUT_MS);
        let late = before - self.evicting.len();
        if late > 0 {
            self.settled_at = self.settled_at.max(now.saturating_add(self.grace_ms));
        }
        vec![EvictionOutcome::Late; late]
    }

    /// Returns the requests to evict for the blocked band, in this order. Often there are none. Each victim's priority is below
    /// the band's.
    pub fn decide(&mut self, blocked: ClosedBand, saturation: f64, now: u64) -> Vec<T> {
        if !self.evicting.is_empty() || now < self.settled_at || self.in_flight == 0 {
            return Vec::new();
        }
        // One request's average share of the saturation.
        let share = saturation / float(self.in_flight as u64);
        if !(share.is_finite() && share > 0.0) {
            return Vec::new();
        }
        // A band at its ceiling is closed, too, so one request must go even if the difference is 0.
        let wanted = ((saturation - blocked.ceiling) / share).ceil();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is from 1 to MAX_VICTIMS"
        )]
        let wanted = wanted.clamp(1.0, float(MAX_VICTIMS as u64)) as usize;
        self.share = share;
        let mut evicted = Vec::new();
        // If there are fewer victims than wanted, fewer go: the next decision follows when they have ended.
        while evicted.len() < wanted
            && let Some(victim) = self.victims.first_entry()
            && victim.key().0 < blocked.priority
        {
            let ((priority, Reverse(number)), item) = victim.remove_entry();
            self.evicting.insert(Lease { priority, number }, now);
            evicted.push(item);
        }
        evicted
    }
}
