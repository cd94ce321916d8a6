//! The blocks of a cache as a tree of runs, so that a request costs a few runs and not a look-up for each block.
//!
//! A run has consecutive blocks that the same requests use. The hash of a block covers all blocks before it, so two prompts
//! with the same block have all blocks before it in common, and runs form a tree. A run is split where a prompt parts from
//! it.
//!
//! A request releases its blocks from the first to the last, so the first ones are evicted first. What is left of a prompt then is an
//! orphan: a run without the blocks before it. It is found again when a prompt brings them back. There is one orphan at most,
//! the least recently used run: whoever uses a run uses its parent too, so a parent is only older than its child if one
//! request has released both, and then no other run is between them.

use std::{collections::BTreeMap, iter, ops::Range};

use ahash::AHashMap;

use super::BlockHash;

#[derive(Debug, Default)]
struct Run {
    blocks: Vec<BlockHash>,
    /// The number of blocks before it in every prompt that has it.
    depth: usize,
    /// The requests that use it.
    users: usize,
    /// When its first block was last used, if nobody uses it. Each further block was used one tick later.
    used_at: u64,
    /// The run before it. `None` at the start of prompts, and for an orphan.
    parent: Option<usize>,
    /// The number of runs that have it as their parent.
    children: usize,
}

/// The runs of a cache.
#[derive(Debug, Default)]
pub(super) struct Runs {
    nodes: Vec<Run>,
    /// Places of `nodes` that can be reused.
    free: Vec<usize>,
    /// Runs by their first block, except for the orphan.
    starts: AHashMap<BlockHash, usize>,
    /// Runs that nobody uses, by `used_at`, which is the order of eviction.
    idle: BTreeMap<u64, usize>,
    blocks: usize,
    idle_blocks: usize,
    clock: u64,
}

// === impl Runs ===

impl Runs {
    /// The number of all blocks.
    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// The number of blocks that running requests use.
    pub(super) fn used_blocks(&self) -> usize {
        self.blocks - self.idle_blocks
    }

    pub(super) fn is_idle(&self, id: usize) -> bool {
        self.nodes[id].users == 0
    }

    /// Returns the runs that a prompt has blocks of, each with the part of the prompt that it covers.
    pub(super) fn path<'a>(
        &'a self,
        prompt: &'a [BlockHash],
    ) -> impl Iterator<Item = (usize, Range<usize>)> + 'a {
        let (mut at, mut parent) = (0, None);
        iter::from_fn(move || {
            // Hashes can collide, so place and parent are compared too.
            let is_next = |id: &usize| (self.nodes[*id].depth, self.nodes[*id].parent) == (at, parent);
            let child = self.starts.get(prompt.get(at)?).copied().filter(is_next);
            let id = child.or_else(|| self.orphan(prompt, at))?;
            let Run { blocks, depth, .. } = &self.nodes[id];
            let same = iter::zip(blocks, &prompt[*depth..]).take_while(|(left, right)| left == right);
            (at, parent) = (depth + same.count(), Some(id));
            Some((id, *depth..at))
        })
    }

    /// Returns the orphan, if a prompt reaches it in this place or later.
    fn orphan(&self, prompt: &[BlockHash], at: usize) -> Option<usize> {
        let (_, &id) = self.idle.first_key_value()?;
        let run = &self.nodes[id];
        let is_orphan = run.parent.is_none() && run.depth > 0;
        (is_orphan && run.depth >= at && prompt.get(run.depth) == run.blocks.first()).then_some(id)
    }

    /// Takes all blocks of a prompt with this path. Returns the run of its last block, and which blocks are new.
    pub(super) fn take(
        &mut self,
        prompt: &[BlockHash],
        path: Vec<(usize, Range<usize>)>,
    ) -> (Option<usize>, Vec<Range<usize>>) {
        let (mut last, mut at, mut added) = (None, 0, Vec::new());
        for (id, Range { start, end }) in path {
            if at < start {
                last = Some(self.add(last, at, &prompt[at..start]));
                added.push(at..start);
            }
            let id = self.split(id, end - start);
            self.occupy(id, last);
            (last, at) = (Some(id), end);
        }
        if at < prompt.len() {
            last = Some(self.add(last, at, &prompt[at..]));
            added.push(at..prompt.len());
        }
        (last, added)
    }

    /// Releases the blocks of a prompt whose last block is in this run.
    pub(super) fn release(&mut self, last: Option<usize>) {
        let Some(id) = last else { return };
        let first_used_at = self.clock;
        self.clock += (self.nodes[id].depth + self.nodes[id].blocks.len()) as u64;
        let mut next = last;
        while let Some(id) = next {
            let run = &mut self.nodes[id];
            run.users -= 1;
            if run.users == 0 {
                run.used_at = first_used_at + run.depth as u64;
                self.idle.insert(run.used_at, id);
                self.idle_blocks += run.blocks.len();
            }
            next = run.parent;
        }
    }

    /// Removes this many blocks that nobody uses, or all of them if they are fewer, and returns them.
    pub(super) fn evict(&mut self, count: usize) -> Vec<BlockHash> {
        let mut evicted = Vec::new();
        while evicted.len() < count
            && let Some((used_at, id)) = self.idle.pop_first()
        {
            self.unlist(id);
            let run = &mut self.nodes[id];
            let part = run.blocks.len().min(count - evicted.len());
            evicted.extend(run.blocks.drain(..part));
            self.blocks -= part;
            self.idle_blocks -= part;
            let parent = run.parent.take();
            if run.blocks.is_empty() {
                self.free.push(id);
                if let Some((_, &child)) = self.idle.first_key_value()
                    && self.nodes[child].parent == Some(id)
                {
                    self.nodes[child].parent = None;
                    self.unlist(child);
                }
                self.nodes[id] = Run::default();
            } else {
                run.depth += part;
                run.used_at = used_at + part as u64;
                // Otherwise a rest of a few blocks could keep the memory of a long prompt.
                run.blocks.shrink_to(2 * run.blocks.len());
                self.idle.insert(run.used_at, id);
            }
            if let Some(parent) = parent {
                self.nodes[parent].children -= 1;
            }
        }
        evicted
    }

    /// Adds blocks that one request uses, after a run that it uses too. Returns their run.
    fn add(&mut self, parent: Option<usize>, depth: usize, blocks: &[BlockHash]) -> usize {
        self.blocks += blocks.len();
        if let Some(id) = parent {
            let run = &mut self.nodes[id];
            // A conversation goes on: the request is the only one that uses what was said before.
            if run.users == 1 && run.children == 0 {
                run.blocks.reserve_exact(blocks.len());
                run.blocks.extend_from_slice(blocks);
                return id;
            }
            run.children += 1;
        }
        let id = self.insert(Run { blocks: blocks.to_vec(), depth, users: 1, parent, ..Run::default() });
        self.starts.insert(blocks[0], id);
        id
    }

    /// Removes a run from `starts`, unless another run whose first hash is the same has replaced it there.
    fn unlist(&mut self, id: usize) {
        let start = self.nodes[id].blocks[0];
        if self.starts.get(&start) == Some(&id) {
            self.starts.remove(&start);
        }
    }

    fn insert(&mut self, run: Run) -> usize {
        if let Some(id) = self.free.pop() {
            self.nodes[id] = run;
            id
        } else {
            self.nodes.push(run);
            self.nodes.len() - 1
        }
    }

    /// Makes the first blocks of a run a run of their own, which is returned. The rest stays the run that it was, because
    /// requests may end with it.
    fn split(&mut self, id: usize, length: usize) -> usize {
        let run = &mut self.nodes[id];
        if length == run.blocks.len() {
            return id;
        }
        let rest = run.blocks.split_off(length);
        let mut blocks = std::mem::replace(&mut run.blocks, rest);
        blocks.shrink_to_fit();
        let (start, after) = (blocks[0], run.blocks[0]);
        let first = Run { blocks, children: 1, ..*run };
        run.depth += length;
        let (users, used_at) = (run.users, run.used_at);
        let first = self.insert(first);
        self.nodes[id].parent = Some(first);
        if users == 0 {
            self.nodes[id].used_at = used_at + length as u64;
            self.idle.insert(used_at, first);
            self.idle.insert(self.nodes[id].used_at, id);
        }
        if let Some(known) = self.starts.get_mut(&start).filter(|known| **known == id) {
            *known = first;
        }
        self.starts.insert(after, id);
        first
    }

    /// Adds a user to a run. An orphan gets its parent.
    fn occupy(&mut self, id: usize, parent: Option<usize>) {
        let run = &mut self.nodes[id];
        if run.users == 0 {
            self.idle.remove(&run.used_at);
            self.idle_blocks -= run.blocks.len();
        }
        run.users += 1;
        if run.parent != parent {
            run.parent = parent;
            self.starts.insert(run.blocks[0], id);
            if let Some(parent) = parent {
                self.nodes[parent].children += 1;
            }
        }
    }

    /// Checks what must be true after each change.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let used: Vec<usize> = (0..self.nodes.len()).filter(|id| !self.free.contains(id)).collect();
        let mut idle_blocks = 0;
        for &id in &used {
            let run = &self.nodes[id];
            assert!(!run.blocks.is_empty());
            assert!(run.blocks.capacity() <= 2 * run.blocks.len().max(4));
            match run.parent.map(|parent| &self.nodes[parent]) {
                Some(parent) => {
                    assert_eq!(parent.depth + parent.blocks.len(), run.depth);
                    assert!(parent.users >= run.users);
                }
                None if run.depth > 0 => {
                    assert_eq!(self.idle.values().next(), Some(&id), "the orphan is the oldest");
                }
                None => {}
            }
            assert_eq!(
                run.children,
                used.iter().filter(|child| self.nodes[**child].parent == Some(id)).count()
            );
            if run.users == 0 {
                assert_eq!(self.idle.get(&run.used_at), Some(&id));
                idle_blocks += run.blocks.len();
            }
        }
        assert_eq!(used.iter().map(|id| self.nodes[*id].blocks.len()).sum::<usize>(), self.blocks);
        assert_eq!(idle_blocks, self.idle_blocks);
        assert_eq!(self.idle.len(), used.iter().filter(|id| self.nodes[**id].users == 0).count());
        for (start, id) in &self.starts {
            assert!(used.contains(id) && self.nodes[*id].blocks[0] == *start);
            assert!(self.nodes[*id].depth == 0 || self.nodes[*id].parent.is_some());
        }
    }
}
