//! Eviction: requests in flight that may be dropped make room for requests that wait and may not.
//!
//! Victims are those of negative priority: the lowest first, and of these the one that was sent last, because the least work is
//! lost with it. Few are evicted at once. Then nobody is, until all of them are gone and the saturation has had time to show it:
//! whoever acts twice on one number evicts too many.

use std::{cmp::Reverse, collections::BTreeMap};

/// The most victims of one decision.
const AT_ONCE: usize = 2;
/// How long a victim may take to go, in milliseconds. After that it counts as gone.
const PATIENCE_MS: u64 = 10_000;

/// Names a request in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[must_use = "a request that entered must leave"]
pub struct Lease {
    priority: i32,
    number: u64,
}

/// Requests that wait although they may not be dropped: the first band of them that the saturation keeps closed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Blocked {
    /// The band's priority.
    pub priority: i32,
    /// The saturation at which it is closed.
    pub ceiling: f64,
}

/// Requests in flight, and which of them were evicted. `T` is what the caller needs to evict one.
#[derive(Debug)]
pub struct Eviction<T> {
    /// How long the saturation takes to show that a request is gone, in milliseconds.
    grace_ms: u64,
    victims: BTreeMap<(i32, Reverse<u64>), T>,
    in_flight: usize,
    next: u64,
    /// When each victim was evicted, of those that are not gone yet.
    going: BTreeMap<Lease, u64>,
    /// When the last that went is visible in the saturation.
    settled_at: u64,
    /// What one request made of the saturation when somebody was last evicted.
    share: f64,
}

/// How a victim went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// So many milliseconds after it was evicted.
    After(u64),
    /// Nobody knows: it took too long to wait for.
    Late,
}

impl<T> Eviction<T> {
    /// Nothing is in flight. The saturation takes so many milliseconds to show that a request is gone.
    pub fn new(grace_ms: u64) -> Self {
        Self {
            grace_ms,
            victims: BTreeMap::new(),
            in_flight: 0,
            next: 0,
            going: BTreeMap::new(),
            settled_at: 0,
            share: 0.0,
        }
    }

    /// How many requests are in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// How many of them could be evicted.
    pub fn evictable(&self) -> usize {
        self.victims.len()
    }

    /// What victims that are not gone yet make of the saturation.
    pub fn pending(&self) -> f64 {
        count(self.going.len()) * self.share
    }

    /// A request was sent to an endpoint.
    pub fn enter(&mut self, priority: i32, item: T) -> Lease {
        let lease = Lease { priority, number: self.next };
        self.next += 1;
        self.in_flight += 1;
        if priority < 0 {
            self.victims.insert((priority, Reverse(lease.number)), item);
        }
        lease
    }

    /// It is no longer in flight, evicted or not.
    pub fn leave(&mut self, lease: Lease, now: u64) -> Option<Gone> {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.victims.remove(&(lease.priority, Reverse(lease.number)));
        let since = self.going.remove(&lease)?;
        self.settled_at = self.settled_at.max(now.saturating_add(self.grace_ms));
        Some(Gone::After(now.saturating_sub(since)))
    }

    /// Victims that took too long to go. From now on they count as gone.
    pub fn late(&mut self, now: u64) -> Vec<Gone> {
        let before = self.going.len();
        self.going.retain(|_, since| now.saturating_sub(*since) < PATIENCE_MS);
        let late = before - self.going.len();
        if late > 0 {
            self.settled_at = self.settled_at.max(now.saturating_add(self.grace_ms));
        }
        vec![Gone::Late; late]
    }

    /// Whom to evict for those that wait, in this order; often nobody. Each victim's priority is below theirs.
    pub fn decide(&mut self, blocked: Blocked, saturation: f64, now: u64) -> Vec<T> {
        if !self.going.is_empty() || now < self.settled_at || self.in_flight == 0 {
            return Vec::new();
        }
        // What one request makes of the saturation, on average.
        let share = saturation / count(self.in_flight);
        if !(share.is_finite() && share > 0.0) {
            return Vec::new();
        }
        let wanted = ((saturation - blocked.ceiling) / share).ceil();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is from 1 to AT_ONCE"
        )]
        let wanted = wanted.clamp(1.0, count(AT_ONCE)) as usize;
        self.share = share;
        let mut evicted = Vec::new();
        while evicted.len() < wanted
            && let Some(victim) = self.victims.first_entry()
            && victim.key().0 < blocked.priority
        {
            let ((priority, Reverse(number)), item) = victim.remove_entry();
            self.going.insert(Lease { priority, number }, now);
            evicted.push(item);
        }
        evicted
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn count(number: usize) -> f64 {
    number as f64
}
