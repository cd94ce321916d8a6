//! Keeps the blocks of prompts that were computed for other engines, until these have fetched them.

use std::{
    collections::VecDeque,
    fmt,
    str::FromStr,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;

use crate::cache::Block;

/// The name of a prompt's blocks. An engine that knows the name may fetch them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name(u128);

#[derive(Debug)]
struct ShelfEntry {
    name: Name,
    /// The hash of the prompt's tokens.
    prompt: u64,
    blocks: Vec<Block>,
    until: Instant,
}

#[derive(Debug, Default)]
struct Contents {
    /// The oldest comes first.
    kept: VecDeque<ShelfEntry>,
    /// Blocks that can be released.
    unwanted: Vec<Block>,
    /// Counts the prompts that were dropped before they were fetched.
    dropped: Counter,
}

/// The kept blocks, by the names under which they may be fetched.
#[derive(Debug)]
pub(crate) struct Shelf {
    contents: Mutex<Contents>,
    lease: Duration,
    /// The most blocks.
    most: usize,
}

// === impl Name ===

impl Name {
    /// Creates a name that cannot be guessed.
    pub(crate) fn new() -> Self {
        Self(rand::random())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for Name {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text.len() == 32 { u128::from_str_radix(text, 16).map(Self).map_err(drop) } else { Err(()) }
    }
}

// === impl Shelf ===

impl Shelf {
    /// Creates a shelf that keeps each prompt for `lease`, and at most `most` blocks. `dropped` counts the prompts that were
    /// dropped before they were fetched.
    pub(crate) fn new(lease: Duration, most: usize, dropped: Counter) -> Self {
        let contents = Contents { dropped, ..Contents::default() };
        Self { contents: Mutex::new(contents), lease, most }
    }

    pub(crate) fn is_empty(&self) -> bool {
        let contents = self.contents.lock();
        contents.kept.is_empty() && contents.unwanted.is_empty()
    }

    /// Whether prompts are kept that have not expired.
    pub(super) fn has_prompts(&self, now: Instant) -> bool {
        self.contents.lock().kept.iter().any(|kept| kept.until > now)
    }

    /// Keeps the blocks of a prompt. If there are too many blocks, drops the oldest prompts.
    pub(crate) fn keep(&self, name: Name, prompt: u64, blocks: Vec<Block>, now: Instant) {
        let contents = &mut *self.contents.lock();
        contents.kept.push_back(ShelfEntry { name, prompt, blocks, until: now + self.lease });
        while contents.kept.iter().map(|kept| kept.blocks.len()).sum::<usize>() > self.most {
            contents.drop_oldest();
        }
    }

    /// Returns the blocks of a prompt if they are kept.
    pub(crate) fn find(&self, name: Name, prompt: u64) -> Option<Vec<Block>> {
        let contents = self.contents.lock();
        let kept = contents.kept.iter().find(|kept| kept.name == name && kept.prompt == prompt)?;
        Some(kept.blocks.clone())
    }

    /// Drops a prompt, because its blocks are no longer needed.
    pub(crate) fn forget(&self, name: Name) {
        let contents = &mut *self.contents.lock();
        if let Some(place) = contents.kept.iter().position(|kept| kept.name == name)
            && let Some(kept) = contents.kept.remove(place)
        {
            contents.unwanted.extend(kept.blocks);
        }
    }

    /// Drops the oldest prompt to make room. Returns whether there was one.
    pub(crate) fn drop_oldest(&self) -> bool {
        self.contents.lock().drop_oldest()
    }

    /// Takes the blocks that can be released, including those of prompts that were not fetched in time.
    pub(crate) fn take_releasable(&self, now: Instant) -> Vec<Block> {
        let contents = &mut *self.contents.lock();
        // Leases are equally long, so the oldest prompt expires first.
        while contents.kept.front().is_some_and(|kept| kept.until <= now) {
            contents.drop_oldest();
        }
        std::mem::take(&mut contents.unwanted)
    }
}

// === impl Contents ===

impl Contents {
    fn drop_oldest(&mut self) -> bool {
        let Some(oldest) = self.kept.pop_front() else { return false };
        self.unwanted.extend(oldest.blocks);
        self.dropped.inc();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Blocks;

    #[test]
    fn blocks_are_kept_until_they_were_fetched_or_the_time_is_over() {
        let mut blocks = Blocks::new(4, 1, true, None);
        let mut take = |count| (0..count).map(|_| blocks.take().unwrap()).collect::<Vec<_>>();
        let dropped = Counter::default();
        let shelf = Shelf::new(Duration::from_secs(10), 3, dropped.clone());
        let now = Instant::now();
        let (first, second) = (Name::new(), Name::new());
        let (one, two) = (take(1), take(2));
        shelf.keep(first, 1, one.clone(), now);
        shelf.keep(second, 2, two.clone(), now + Duration::from_secs(5));
        assert_eq!(shelf.find(first, 1), Some(one.clone()));
        assert_eq!(shelf.find(first, 2), None, "another prompt");
        assert_eq!(first.to_string().parse(), Ok(first));
        assert_eq!(shelf.take_releasable(now), []);
        assert_eq!(shelf.take_releasable(now + Duration::from_secs(10)), one);
        assert_eq!(dropped.get(), 1);
        shelf.forget(second);
        assert_eq!(shelf.find(second, 2), None);
        assert_eq!(shelf.take_releasable(now), two);
        assert!(shelf.is_empty() && !shelf.drop_oldest());
        assert_eq!(dropped.get(), 1, "the second one was fetched");
    }

    #[test]
    fn what_is_too_much_is_forgotten_the_oldest_first() {
        let mut blocks = Blocks::new(4, 1, true, None);
        let mut take = |count| (0..count).map(|_| blocks.take().unwrap()).collect::<Vec<_>>();
        let dropped = Counter::default();
        let shelf = Shelf::new(Duration::from_secs(10), 3, dropped.clone());
        let now = Instant::now();
        let oldest = Name::new();
        let (one, two) = (take(2), take(2));
        shelf.keep(oldest, 1, one.clone(), now);
        shelf.keep(Name::new(), 2, two.clone(), now);
        assert_eq!(dropped.get(), 1);
        assert_eq!(shelf.find(oldest, 1), None);
        assert_eq!(shelf.take_releasable(now), one);
        assert!(shelf.drop_oldest());
        assert_eq!((shelf.take_releasable(now), dropped.get()), (two, 2));
    }
}
