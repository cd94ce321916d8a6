//! The leases of prompts that were computed for other engines. A lease keeps the blocks of a prompt until another engine has
//! fetched them.

use std::{
    collections::VecDeque,
    fmt,
    str::FromStr,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;

use crate::cache::Block;

/// The id of a transfer. An engine that knows the id may fetch the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TransferId(u128);

#[derive(Debug)]
struct Lease {
    id: TransferId,
    /// The hash of the prompt's tokens.
    prompt: u64,
    blocks: Vec<Block>,
    expires: Instant,
}

#[derive(Debug, Default)]
struct State {
    /// The oldest comes first.
    active: VecDeque<Lease>,
    /// The blocks of leases that have ended.
    releasable: Vec<Block>,
    /// Counts the leases that ended before their blocks were fetched.
    expired: Counter,
}

/// All leases of an engine.
#[derive(Debug)]
pub(crate) struct Leases {
    state: Mutex<State>,
    duration: Duration,
    max_blocks: usize,
}

// === impl TransferId ===

impl TransferId {
    /// Creates an id that cannot be guessed.
    pub(crate) fn new() -> Self {
        Self(rand::random())
    }
}

impl fmt::Display for TransferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for TransferId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text.len() == 32 { u128::from_str_radix(text, 16).map(Self).map_err(drop) } else { Err(()) }
    }
}

// === impl Leases ===

impl Leases {
    /// Grants leases of this duration, for at most `max_blocks` blocks together. `expired` counts the leases that end before
    /// their blocks are fetched.
    pub(crate) fn new(duration: Duration, max_blocks: usize, expired: Counter) -> Self {
        let state = State { expired, ..State::default() };
        Self { state: Mutex::new(state), duration, max_blocks }
    }

    /// Whether there are neither active leases nor blocks to release.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.state.lock();
        state.active.is_empty() && state.releasable.is_empty()
    }

    /// Whether a lease has not expired.
    pub(super) fn has_active(&self, now: Instant) -> bool {
        self.state.lock().active.iter().any(|lease| lease.expires > now)
    }

    /// Grants a lease of a prompt's blocks. If there are too many blocks, the oldest leases end.
    pub(crate) fn grant(&self, id: TransferId, prompt: u64, blocks: Vec<Block>, now: Instant) {
        let state = &mut *self.state.lock();
        state.active.push_back(Lease { id, prompt, blocks, expires: now + self.duration });
        while state.active.iter().map(|lease| lease.blocks.len()).sum::<usize>() > self.max_blocks {
            state.expire_oldest();
        }
    }

    /// Returns the blocks of a prompt, if it has a lease.
    pub(crate) fn find(&self, id: TransferId, prompt: u64) -> Option<Vec<Block>> {
        let state = self.state.lock();
        let lease = state.active.iter().find(|lease| lease.id == id && lease.prompt == prompt)?;
        Some(lease.blocks.clone())
    }

    /// Ends the lease of blocks that were fetched.
    pub(crate) fn end(&self, id: TransferId) {
        let state = &mut *self.state.lock();
        if let Some(index) = state.active.iter().position(|lease| lease.id == id)
            && let Some(lease) = state.active.remove(index)
        {
            state.releasable.extend(lease.blocks);
        }
    }

    /// Ends the oldest lease. Returns whether there was one.
    pub(crate) fn expire_oldest(&self) -> bool {
        self.state.lock().expire_oldest()
    }

    /// Takes the blocks of all leases that have ended, also by their time.
    pub(crate) fn take_releasable(&self, now: Instant) -> Vec<Block> {
        let state = &mut *self.state.lock();
        // Leases are equally long, so the oldest one expires first.
        while state.active.front().is_some_and(|lease| lease.expires <= now) {
            state.expire_oldest();
        }
        std::mem::take(&mut state.releasable)
    }
}

// === impl State ===

impl State {
    fn expire_oldest(&mut self) -> bool {
        let Some(oldest) = self.active.pop_front() else { return false };
        self.releasable.extend(oldest.blocks);
        self.expired.inc();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Leases of ten seconds and three blocks, the counter of those that expire, and two blocks for each of two prompts.
    fn leases() -> (Leases, Counter, [Vec<Block>; 2]) {
        let expired = Counter::default();
        let blocks = Block::all(4);
        let leases = Leases::new(Duration::from_secs(10), 3, expired.clone());
        (leases, expired, [blocks[..2].to_vec(), blocks[2..].to_vec()])
    }

    #[test]
    fn a_lease_ends_when_its_blocks_were_fetched_or_its_time_is_over() {
        let (leases, expired, [first_blocks, second_blocks]) = leases();
        let second_blocks = second_blocks[..1].to_vec();
        let now = Instant::now();
        let (first, second) = (TransferId::new(), TransferId::new());
        leases.grant(first, 1, first_blocks.clone(), now);
        leases.grant(second, 2, second_blocks.clone(), now + Duration::from_secs(5));
        assert_eq!(leases.find(first, 1), Some(first_blocks.clone()));
        assert_eq!(leases.find(first, 2), None, "another prompt");
        assert_eq!(first.to_string().parse(), Ok(first));
        assert_eq!(leases.take_releasable(now), []);
        assert_eq!(leases.take_releasable(now + Duration::from_secs(10)), first_blocks);
        assert_eq!(expired.get(), 1);
        leases.end(second);
        assert_eq!(leases.find(second, 2), None);
        assert_eq!(leases.take_releasable(now), second_blocks);
        assert!(leases.is_empty() && !leases.expire_oldest());
        assert_eq!(expired.get(), 1, "the second one was fetched");
    }

    #[test]
    fn the_oldest_lease_ends_when_there_are_too_many_blocks() {
        let (leases, expired, [first_blocks, second_blocks]) = leases();
        let now = Instant::now();
        let oldest = TransferId::new();
        leases.grant(oldest, 1, first_blocks.clone(), now);
        leases.grant(TransferId::new(), 2, second_blocks.clone(), now);
        assert_eq!((leases.find(oldest, 1), expired.get()), (None, 1));
        assert_eq!(leases.take_releasable(now), first_blocks);
        assert!(leases.expire_oldest());
        assert_eq!((leases.take_releasable(now), expired.get()), (second_blocks, 2));
    }
}
