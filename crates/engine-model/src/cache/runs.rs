//! The blocks of a cache as a tree of runs, so that a request costs a few runs and not a look-up for each block.
//!
//! A run has consecutive blocks that the same requests use. The hash of a block covers all blocks before it, so two prompts
//! with the same block have all blocks before it in common, and runs form a tree. A run is split where a prompt parts from
//! it.
//!
//! A request releases its blocks from the last to the first, as vLLM does, so the end of a prompt is evicted before its start. A
//! run is therefore evicted before the run before it: whoever uses a run uses its parent too, and a request that releases both
//! releases the parent later.

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
    /// When its last block was last used, if nobody uses it. Each block before it was used one tick later.
    used_at: u64,
    /// The run before it. `None` at the start of prompts.
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
    /// Runs by their first block.
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

    /// Returns the runs that a prompt begins with, each with the part of the prompt that it covers.
    pub(super) fn path<'a>(
        &'a self,
        prompt: &'a [BlockHash],
    ) -> impl Iterator<Item = (usize, Range<usize>)> + 'a {
        let (mut at, mut parent) = (0, None);
        iter::from_fn(move || {
            let id = *self.starts.get(prompt.get(at)?)?;
            let Run { blocks, depth, .. } = &self.nodes[id];
            // Hashes can collide, so place and parent are compared too.
            if (*depth, self.nodes[id].parent) != (at, parent) {
                return None;
            }
            let same = iter::zip(blocks, &prompt[at..]).take_while(|(left, right)| left == right);
            (at, parent) = (at + same.count(), Some(id));
            Some((id, *depth..at))
        })
    }

    /// Takes all blocks of a prompt with this path. Returns the run of its last block, and which blocks are new.
    pub(super) fn take(
        &mut self,
        prompt: &[BlockHash],
        path: Vec<(usize, Range<usize>)>,
    ) -> (Option<usize>, Range<usize>) {
        let (mut last, mut at) = (None, 0);
        for (id, Range { start, end }) in path {
            let id = self.split(id, end - start);
            self.occupy(id);
            (last, at) = (Some(id), end);
        }
        if at < prompt.len() {
            last = Some(self.add(last, at, &prompt[at..]));
        }
        (last, at..prompt.len())
    }

    /// Releases the blocks of a prompt whose last block is in this run.
    pub(super) fn release(&mut self, last: Option<usize>) {
        let end = |run: &Run| (run.depth + run.blocks.len()) as u64;
        let Some(id) = last else { return };
        // A tick for each block: the last one is released first, so it has the oldest time.
        self.clock += end(&self.nodes[id]);
        let mut next = last;
        while let Some(id) = next {
            let run = &mut self.nodes[id];
            run.users -= 1;
            if run.users == 0 {
                run.used_at = self.clock - end(run);
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
            let run = &mut self.nodes[id];
            let part = run.blocks.len().min(count - evicted.len());
            let start = run.blocks[0];
            evicted.extend(run.blocks.drain(run.blocks.len() - part..).rev());
            self.blocks -= part;
            self.idle_blocks -= part;
            if !run.blocks.is_empty() {
                run.used_at = used_at + part as u64;
                // Otherwise a rest of a few blocks could keep the memory of a long prompt.
                run.blocks.shrink_to(2 * run.blocks.len());
                self.idle.insert(run.used_at, id);
                continue;
            }
            // Another run whose first hash is the same may have replaced it there.
            if self.starts.get(&start) == Some(&id) {
                self.starts.remove(&start);
            }
            if let Some(parent) = std::mem::take(run).parent {
                self.nodes[parent].children -= 1;
            }
            self.free.push(id);
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
            self.nodes[first].used_at = used_at + self.nodes[id].blocks.len() as u64;
            self.idle.insert(self.nodes[first].used_at, first);
        }
        if let Some(known) = self.starts.get_mut(&start).filter(|known| **known == id) {
            *known = first;
        }
        self.starts.insert(after, id);
        first
    }

    /// Adds a user to a run.
    fn occupy(&mut self, id: usize) {
        let run = &mut self.nodes[id];
        if run.users == 0 {
            self.idle.remove(&run.used_at);
            self.idle_blocks -= run.blocks.len();
        }
        run.users += 1;
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
                    assert!(parent.users > 0 || parent.used_at > run.used_at, "the parent is evicted later");
                }
                None => assert_eq!(run.depth, 0),
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
        }
    }
}
