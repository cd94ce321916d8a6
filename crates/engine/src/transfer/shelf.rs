//! Blocks of prompts that were computed for other engines, until those have fetched them.

use std::{
    collections::VecDeque,
    fmt,
    str::FromStr,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::cache::Block;

/// The name of a prompt's blocks. Who knows it may fetch them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name(u128);

#[derive(Debug)]
struct Kept {
    name: Name,
    /// Stands for the tokens.
    prompt: u64,
    blocks: Vec<Block>,
    until: Instant,
}

#[derive(Debug, Default)]
struct Contents {
    /// The oldest in front.
    kept: VecDeque<Kept>,
    /// Blocks that nobody waits for any more.
    unwanted: Vec<Block>,
}

/// The blocks, and who may have them.
#[derive(Debug)]
pub(crate) struct Shelf {
    contents: Mutex<Contents>,
    patience: Duration,
    /// The most blocks.
    most: usize,
}

// === impl Name ===

impl Name {
    /// A name that nobody can guess.
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
    /// Keeps each prompt for so long, and at most so many blocks together.
    pub(crate) fn new(patience: Duration, most: usize) -> Self {
        Self { contents: Mutex::default(), patience, most }
    }

    pub(crate) fn is_empty(&self) -> bool {
        let contents = self.contents.lock();
        contents.kept.is_empty() && contents.unwanted.is_empty()
    }

    /// Keeps the blocks of a prompt. Where they are too many together, the oldest prompts are forgotten; gives how many.
    pub(crate) fn keep(&self, name: Name, prompt: u64, blocks: Vec<Block>, now: Instant) -> usize {
        let contents = &mut *self.contents.lock();
        contents.kept.push_back(Kept { name, prompt, blocks, until: now + self.patience });
        let mut forgotten = 0;
        while contents.kept.iter().map(|kept| kept.blocks.len()).sum::<usize>() > self.most {
            let Some(oldest) = contents.kept.pop_front() else { break };
            contents.unwanted.extend(oldest.blocks);
            forgotten += 1;
        }
        forgotten
    }

    /// The blocks of a prompt, if they are here.
    pub(crate) fn find(&self, name: Name, prompt: u64) -> Option<Vec<Block>> {
        let contents = self.contents.lock();
        let kept = contents.kept.iter().find(|kept| kept.name == name && kept.prompt == prompt)?;
        Some(kept.blocks.clone())
    }

    /// Nobody wants the blocks of this prompt any more.
    pub(crate) fn forget(&self, name: Name) {
        let contents = &mut *self.contents.lock();
        if let Some(place) = contents.kept.iter().position(|kept| kept.name == name)
            && let Some(kept) = contents.kept.remove(place)
        {
            contents.unwanted.extend(kept.blocks);
        }
    }

    /// Forgets the oldest prompt to make room. Whether there was one.
    pub(crate) fn forget_oldest(&self) -> bool {
        let contents = &mut *self.contents.lock();
        let oldest = contents.kept.pop_front();
        let found = oldest.is_some();
        contents.unwanted.extend(oldest.into_iter().flat_map(|kept| kept.blocks));
        found
    }

    /// Takes the blocks that nobody waits for, with those of prompts that were not fetched in time. Gives how many such
    /// prompts there were, too.
    pub(crate) fn unwanted(&self, now: Instant) -> (Vec<Block>, usize) {
        let contents = &mut *self.contents.lock();
        let mut expired = 0;
        while contents.kept.front().is_some_and(|kept| kept.until <= now) {
            let Some(kept) = contents.kept.pop_front() else { break };
            contents.unwanted.extend(kept.blocks);
            expired += 1;
        }
        (std::mem::take(&mut contents.unwanted), expired)
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
        let shelf = Shelf::new(Duration::from_secs(10), 3);
        let now = Instant::now();
        let (first, second) = (Name::new(), Name::new());
        let (one, two) = (take(1), take(2));
        assert_eq!(shelf.keep(first, 1, one.clone(), now), 0);
        assert_eq!(shelf.keep(second, 2, two.clone(), now + Duration::from_secs(5)), 0);
        assert_eq!(shelf.find(first, 1), Some(one.clone()));
        assert_eq!(shelf.find(first, 2), None, "another prompt");
        assert_eq!(first.to_string().parse(), Ok(first));
        assert_eq!(shelf.unwanted(now), (vec![], 0));
        assert_eq!(shelf.unwanted(now + Duration::from_secs(10)), (one, 1));
        shelf.forget(second);
        assert_eq!(shelf.find(second, 2), None);
        assert_eq!(shelf.unwanted(now), (two, 0));
        assert!(shelf.is_empty() && !shelf.forget_oldest());
    }

    #[test]
    fn what_is_too_much_is_forgotten_the_oldest_first() {
        let mut blocks = Blocks::new(4, 1, true, None);
        let mut take = |count| (0..count).map(|_| blocks.take().unwrap()).collect::<Vec<_>>();
        let shelf = Shelf::new(Duration::from_secs(10), 3);
        let now = Instant::now();
        let oldest = Name::new();
        let (one, two) = (take(2), take(2));
        shelf.keep(oldest, 1, one.clone(), now);
        assert_eq!(shelf.keep(Name::new(), 2, two.clone(), now), 1);
        assert_eq!(shelf.find(oldest, 1), None);
        assert_eq!(shelf.unwanted(now), (one, 0));
        assert!(shelf.forget_oldest());
        assert_eq!(shelf.unwanted(now), (two, 0));
    }
}
