//! A radix tree of prefixes, and the order in which each endpoint used them.
//!
//! A prompt of 400 KB has 1,600 blocks. A table of blocks would be accessed several times for each of them, at places that no
//! processor cache has. The blocks of a prompt are used and evicted together, so a node of this tree has all blocks up to the
//! next block at which prompts differ. Most prompts are then one node, and a long conversation a few.
//!
//! The tree behaves as if each endpoint had a list of single blocks in order of use. A block's hash stands for the whole
//! prefix, so nodes are found by the hash of their first block, and need no links to their parents or children. Hashes that
//! collide make wrong matches, as they would in a table of blocks, and nothing worse.

use std::iter;

use ahash::AHashMap;

use super::count;
use crate::endpoint::Slot;

/// Consecutive blocks that all known prompts have in common.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    blocks: Vec<u64>,
    /// The number of prompts that matched up to the last block and then differed.
    forks: u32,
    /// The endpoints that hold the first block, by slot.
    shares: Vec<Share>,
}

/// The part of a node that an endpoint holds, and its place in the endpoint's order of use. The first block of a node counts
/// as used after the others.
#[derive(Debug, Clone, Copy)]
struct Share {
    slot: Slot,
    /// The number of leading blocks. Never 0.
    held: u32,
    /// The neighbours in the order of use.
    older: u32,
    newer: u32,
}

/// The order in which an endpoint used its nodes.
#[derive(Debug, Clone)]
struct Order {
    newest: u32,
    oldest: u32,
    /// The number of blocks that the endpoint holds.
    blocks: usize,
}

const NIL: u32 = u32::MAX;

impl Default for Order {
    fn default() -> Self {
        Self { newest: NIL, oldest: NIL, blocks: 0 }
    }
}

/// The prefixes of all endpoints.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// Nodes without blocks, to use again.
    free: Vec<u32>,
    /// The node that starts with a block.
    starts: AHashMap<u64, u32>,
    /// By slot.
    orders: Vec<Order>,
}

// === impl Node ===

impl Node {
    /// The number of blocks.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn forks(&self) -> u32 {
        self.forks
    }

    /// Returns the number of leading blocks that an endpoint holds. Candidates mostly come in the order of their slots, so the
    /// search begins where the last one ended, which is `near`.
    pub(super) fn held(&self, slot: Slot, near: &mut usize) -> usize {
        let (before, after) = self.shares.split_at((*near).min(self.shares.len()));
        let is_after = before.last().is_none_or(|share| share.slot < slot);
        let found = match after.first() {
            Some(share) if share.slot == slot => Ok(*near),
            Some(share) if share.slot < slot => self.find(slot),
            _ if is_after => Err(*near),
            _ => self.find(slot),
        };
        *near = found.map_or_else(|at| at, |at| at + 1);
        found.map_or(0, |at| self.shares[at].held as usize)
    }

    fn find(&self, slot: Slot) -> Result<usize, usize> {
        self.shares.binary_search_by_key(&slot, |share| share.slot)
    }

    /// Forgets the blocks that no endpoint holds.
    fn trim(&mut self) {
        let held = self.shares.iter().map(|share| share.held as usize).max().unwrap_or_default();
        if held < self.blocks.len() {
            self.blocks.truncate(held);
            self.forks = 0;
        }
        self.shrink();
    }

    /// Frees unused memory if it is half or more. If less were enough, long prompts would be moved too often.
    fn shrink(&mut self) {
        if self.blocks.len() <= self.blocks.capacity() / 2 {
            self.blocks.shrink_to_fit();
        }
    }
}

// === impl Tree ===

impl Tree {
    /// The number of blocks that an endpoint holds.
    pub(super) fn held(&self, slot: Slot) -> usize {
        self.orders.get(slot.0 as usize).map_or(0, |order| order.blocks)
    }

    /// The number of blocks that all endpoints hold together.
    pub(super) fn len(&self) -> usize {
        self.orders.iter().map(|order| order.blocks).sum()
    }

    /// Returns the nodes along a prompt, each with the number of leading blocks that the prompt shares with it. All but the
    /// last are shared completely.
    pub(super) fn path<'a>(&'a self, mut prompt: &'a [u64]) -> impl Iterator<Item = (&'a Node, usize)> {
        iter::from_fn(move || {
            let node = &self.nodes[*self.starts.get(prompt.first()?)? as usize];
            let shared = shared(&node.blocks, prompt);
            prompt = if shared == node.len() { &prompt[shared..] } else { &[] };
            Some((node, shared))
        })
    }

    /// Makes a prompt the most recently used of an endpoint. The first block is used last. So it is forgotten last, and what
    /// an endpoint holds of a prompt is always a prefix.
    pub(super) fn learn(&mut self, slot: Slot, prompt: &[u64]) {
        let mut rest = prompt;
        let mut path = Vec::new();
        while let Some(first) = rest.first() {
            let (id, length) = match self.starts.get(first) {
                Some(&id) => (id, self.split(id, shared(&self.nodes[id as usize].blocks, rest))),
                None => (self.add(Node { blocks: rest.to_vec(), ..Node::default() }), rest.len()),
            };
            path.push(id);
            rest = &rest[length..];
        }
        for id in path.into_iter().rev() {
            self.touch(slot, id);
        }
    }

    /// Counts a prompt that matched these blocks and then differed from all others. Does nothing if they are forgotten
    /// meanwhile.
    pub(super) fn fork(&mut self, mut known: &[u64]) {
        while let Some(&id) = known.first().and_then(|first| self.starts.get(first)) {
            let length = shared(&self.nodes[id as usize].blocks, known);
            if length == known.len() {
                self.split(id, length);
                let node = &mut self.nodes[id as usize];
                node.forks = node.forks.saturating_add(1);
                return;
            }
            if length < self.nodes[id as usize].len() {
                return;
            }
            known = &known[length..];
        }
    }

    /// Forgets this many of an endpoint's blocks, the least recently used first.
    pub(super) fn forget(&mut self, slot: Slot, mut count: usize) {
        while count > 0 {
            let Some(id) = self.orders.get(slot.0 as usize).map(|order| order.oldest) else { return };
            let Some(node) = self.nodes.get_mut(id as usize) else { return };
            let Ok(at) = node.find(slot) else { return };
            let held = node.shares[at].held;
            let gone = held.min(u32::try_from(count).unwrap_or(u32::MAX));
            count -= gone as usize;
            self.orders[slot.0 as usize].blocks -= gone as usize;
            if gone == held {
                self.unlink(slot, id);
                self.nodes[id as usize].shares.remove(at);
            } else {
                node.shares[at].held -= gone;
            }
            self.trim(id);
        }
    }

    /// Cuts a node in two, so that it ends after this many blocks. Returns that number.
    fn split(&mut self, id: u32, at: usize) -> usize {
        let node = &mut self.nodes[id as usize];
        if at >= node.blocks.len() {
            return at;
        }
        let mut rest = Node { blocks: node.blocks.split_off(at), forks: node.forks, shares: Vec::new() };
        node.forks = 0;
        node.shrink();
        let kept = count(at);
        for share in &mut node.shares {
            if share.held > kept {
                rest.shares.push(Share { held: share.held - kept, ..*share });
                share.held = kept;
            }
        }
        // The copied shares have the links of the first half, so each is linked anew.
        let slots: Vec<Slot> = rest.shares.iter().map(|share| share.slot).collect();
        let rest = self.add(rest);
        for slot in slots {
            self.link_before(slot, rest, id);
        }
        at
    }

    /// Adds a node.
    fn add(&mut self, node: Node) -> u32 {
        let first = node.blocks.first().copied();
        let id = if let Some(id) = self.free.pop() {
            self.nodes[id as usize] = node;
            id
        } else {
            // 2³² nodes would need a hundred gigabytes, so memory ends before `u32` does.
            self.nodes.push(node);
            count(self.nodes.len() - 1)
        };
        if let Some(first) = first {
            self.starts.insert(first, id);
        }
        id
    }

    /// Forgets what no endpoint holds of a node.
    fn trim(&mut self, id: u32) {
        let node = &mut self.nodes[id as usize];
        let first = node.blocks.first().copied();
        node.trim();
        if node.blocks.is_empty() {
            *node = Node::default();
            self.free.push(id);
            if let Some(first) = first
                && self.starts.get(&first) == Some(&id)
            {
                self.starts.remove(&first);
            }
        }
    }

    /// Makes all blocks of a node the most recently used of an endpoint.
    fn touch(&mut self, slot: Slot, id: u32) {
        let index = slot.0 as usize;
        if self.orders.len() <= index {
            self.orders.resize_with(index + 1, Order::default);
        }
        let node = &mut self.nodes[id as usize];
        let all = count(node.blocks.len());
        let before = match node.find(slot) {
            Ok(at) => std::mem::replace(&mut node.shares[at].held, all),
            Err(at) => {
                node.shares.insert(at, Share { slot, held: all, older: NIL, newer: NIL });
                0
            }
        };
        self.orders[index].blocks += (all - before) as usize;
        if before > 0 {
            self.unlink(slot, id);
        }
        let newest = std::mem::replace(&mut self.orders[index].newest, id);
        self.set(slot, id, |share| (share.older, share.newer) = (newest, NIL));
        self.set(slot, newest, |share| share.newer = id);
        if newest == NIL {
            self.orders[index].oldest = id;
        }
    }

    /// Puts a node into an endpoint's order of use, just before `newer`.
    fn link_before(&mut self, slot: Slot, id: u32, newer: u32) {
        let mut older = NIL;
        self.set(slot, newer, |share| older = std::mem::replace(&mut share.older, id));
        self.set(slot, id, |share| (share.older, share.newer) = (older, newer));
        self.set(slot, older, |share| share.newer = id);
        if older == NIL {
            self.orders[slot.0 as usize].oldest = id;
        }
    }

    /// Takes a node out of an endpoint's order of use.
    fn unlink(&mut self, slot: Slot, id: u32) {
        let (mut older, mut newer) = (NIL, NIL);
        self.set(slot, id, |share| (older, newer) = (share.older, share.newer));
        self.set(slot, older, |share| share.newer = newer);
        self.set(slot, newer, |share| share.older = older);
        let ends = &mut self.orders[slot.0 as usize];
        if older == NIL {
            ends.oldest = newer;
        }
        if newer == NIL {
            ends.newest = older;
        }
    }

    /// Changes an endpoint's share of a node. Does nothing for [`NIL`].
    fn set(&mut self, slot: Slot, id: u32, change: impl FnOnce(&mut Share)) {
        if let Some(node) = self.nodes.get_mut(id as usize)
            && let Ok(at) = node.find(slot)
        {
            change(&mut node.shares[at]);
        }
    }
}

/// Returns the number of equal blocks at the start.
fn shared(left: &[u64], right: &[u64]) -> usize {
    iter::zip(left, right).take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An endpoint's single blocks in order of use, the newest last.
    #[derive(Debug, Default)]
    struct List(Vec<u64>);

    impl List {
        fn learn(&mut self, prompt: &[u64]) {
            for block in prompt.iter().rev() {
                self.0.retain(|held| held != block);
                self.0.push(*block);
            }
        }

        fn matched(&self, prompt: &[u64]) -> usize {
            prompt.iter().take_while(|block| self.0.contains(block)).count()
        }
    }

    impl Tree {
        fn matched(&self, slot: Slot, prompt: &[u64]) -> usize {
            let mut matched = 0;
            for (node, shared) in self.path(prompt) {
                matched += node.held(slot, &mut 0).min(shared);
                let mut last = usize::MAX;
                if node.held(slot, &mut last) < node.len() {
                    break;
                }
            }
            matched
        }

        fn forks(&self, known: &[u64]) -> u32 {
            let mut depth = 0;
            for (node, shared) in self.path(known) {
                depth += shared;
                if depth == known.len() && shared == node.len() {
                    return node.forks;
                }
            }
            0
        }

        /// Checks that nothing is kept that no endpoint holds, and that the orders of use have all shares.
        fn check(&self) {
            let mut linked = 0;
            for (index, order) in self.orders.iter().enumerate() {
                let (slot, mut at, mut newer, mut blocks) = (Slot(count(index)), order.newest, NIL, 0);
                while at != NIL {
                    let node = &self.nodes[at as usize];
                    let share = node.shares[node.find(slot).unwrap()];
                    assert_eq!(share.newer, newer);
                    assert!(share.held > 0);
                    blocks += share.held as usize;
                    linked += 1;
                    (newer, at) = (at, share.older);
                }
                assert_eq!((order.oldest, order.blocks), (newer, blocks));
            }
            let used = self.nodes.iter().filter(|node| !node.blocks.is_empty());
            assert_eq!(self.nodes.iter().map(|node| node.shares.len()).sum::<usize>(), linked);
            assert_eq!(used.clone().count() + self.free.len(), self.nodes.len());
            assert!(self.starts.values().all(|&id| !self.nodes[id as usize].blocks.is_empty()));
            for node in used {
                let held = node.shares.iter().map(|share| share.held as usize).max();
                assert_eq!(held, Some(node.len()));
                assert!(node.blocks.capacity() <= 2 * node.len().max(4));
            }
        }
    }

    /// A step: an endpoint, a prompt, and what happens.
    #[derive(Debug, Clone)]
    enum Step {
        Learn,
        Forget(usize),
        Fork(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<(u32, Vec<u8>, Step)>> {
        let step = prop_oneof![
            4 => Just(Step::Learn),
            2 => (1..6_usize).prop_map(Step::Forget),
            1 => (1..7_usize).prop_map(Step::Fork),
        ];
        proptest::collection::vec((0..3_u32, proptest::collection::vec(0..2_u8, 1..7), step), 1..80)
    }

    /// The blocks of a prompt: each stands for all letters up to it.
    fn blocks(letters: &[u8]) -> Vec<u64> {
        letters
            .iter()
            .scan(1, |prefix, letter| {
                *prefix = *prefix * 2 + u64::from(*letter);
                Some(*prefix)
            })
            .collect()
    }

    proptest! {
        /// After any sequence of steps, all is as with plain lists of single blocks.
        #[test]
        fn a_tree_holds_what_lists_of_blocks_would(steps in steps()) {
            let (mut tree, mut lists) = (Tree::default(), [(); 3].map(|()| List::default()));
            let mut forks: AHashMap<u64, u32> = AHashMap::new();
            for (number, letters, step) in steps {
                let (slot, list, prompt) = (Slot(number), &mut lists[number as usize], blocks(&letters));
                match step {
                    Step::Learn => {
                        tree.learn(slot, &prompt);
                        list.learn(&prompt);
                    }
                    Step::Forget(count) => {
                        tree.forget(slot, count);
                        list.0.drain(..count.min(list.0.len()));
                        forks.retain(|block, _| lists.iter().any(|list| list.0.contains(block)));
                    }
                    Step::Fork(depth) => {
                        let known = &prompt[..depth.min(prompt.len())];
                        tree.fork(known);
                        let last = known[known.len() - 1];
                        if lists.iter().any(|list| list.0.contains(&last)) {
                            *forks.entry(last).or_default() += 1;
                        }
                    }
                }
                tree.check();
                for (number, list) in lists.iter().enumerate() {
                    let slot = Slot(count(number));
                    prop_assert_eq!(tree.held(slot), list.0.len());
                    prop_assert_eq!(tree.matched(slot, &prompt), list.matched(&prompt));
                }
                prop_assert_eq!(tree.len(), lists.iter().map(|list| list.0.len()).sum::<usize>());
                for end in 1..=prompt.len() {
                    let expected = forks.get(&prompt[end - 1]).copied().unwrap_or_default();
                    prop_assert_eq!(tree.forks(&prompt[..end]), expected);
                }
            }
        }

        /// Colliding hashes cause wrong matches, but no panic and no leak.
        #[test]
        fn blocks_that_collide_do_no_harm(steps in steps()) {
            let mut tree = Tree::default();
            for (number, letters, step) in steps {
                let prompt: Vec<u64> = letters.iter().map(|letter| u64::from(*letter)).collect();
                match step {
                    Step::Learn => tree.learn(Slot(number), &prompt),
                    Step::Forget(count) => tree.forget(Slot(number), count),
                    Step::Fork(depth) => tree.fork(&prompt[..depth.min(prompt.len())]),
                }
                tree.check();
                prop_assert!(tree.path(&prompt).map(|(_, shared)| shared).sum::<usize>() <= prompt.len());
            }
            for slot in 0..3 {
                tree.forget(Slot(slot), tree.held(Slot(slot)));
            }
            tree.check();
            prop_assert_eq!((tree.len(), tree.starts.len()), (0, 0));
        }
    }
}
