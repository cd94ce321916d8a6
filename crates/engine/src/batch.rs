//! Which sequences run, and which of their tokens are computed next.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use crate::{
    cache::{Blocks, Hash},
    sequence::Sequence,
    transfer::Shelf,
};

/// Sequences that wait and those that run, with the blocks of the cache.
pub(crate) struct Batch {
    waiting: VecDeque<Sequence>,
    running: Vec<Sequence>,
    blocks: Blocks,
    /// Blocks that are kept for other engines.
    shelf: Arc<Shelf>,
    /// The most sequences that run.
    most_sequences: usize,
    /// The most tokens of one pass.
    most_tokens: usize,
    /// The most adapters of the sequences that run.
    most_adapters: usize,
}

/// A sequence that runs from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Started {
    /// Which of the running sequences.
    pub(crate) index: usize,
    /// Tokens of the prompt.
    pub(crate) prompt: usize,
    /// Those of them that were found in the cache.
    pub(crate) cached: usize,
    /// Those of them that another engine has computed.
    pub(crate) imported: usize,
}

/// Tokens of a running sequence that are computed in one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// Which of the running sequences.
    pub(crate) index: usize,
    pub(crate) tokens: usize,
}

// === impl Batch ===

impl Batch {
    pub(crate) fn new(
        blocks: Blocks,
        shelf: Arc<Shelf>,
        most_sequences: usize,
        most_tokens: usize,
        most_adapters: usize,
    ) -> Self {
        Self {
            waiting: VecDeque::new(),
            running: Vec::new(),
            blocks,
            shelf,
            most_sequences,
            most_tokens,
            most_adapters,
        }
    }

    /// Whether nothing is kept for other engines.
    pub(crate) fn keeps_nothing(&self) -> bool {
        self.shelf.is_empty()
    }

    /// Takes back the blocks that no other engine waits for. Gives how many prompts nobody fetched in time.
    pub(crate) fn take_back(&mut self) -> usize {
        let (unwanted, expired) = self.shelf.unwanted(Instant::now());
        for block in unwanted.into_iter().rev() {
            self.blocks.release(block);
        }
        expired
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Whether another sequence may be taken from the queue.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() + self.running.len() < self.most_sequences
    }

    pub(crate) fn push(&mut self, sequence: Sequence) {
        self.waiting.push_back(sequence);
    }

    pub(crate) fn running(&self) -> &[Sequence] {
        &self.running
    }

    pub(crate) fn running_mut(&mut self) -> &mut [Sequence] {
        &mut self.running
    }

    pub(crate) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Whether a sequence may join those that run: its adapter is one of theirs, or another one may be.
    fn has_place_for(&self, sequence: &Sequence) -> bool {
        let Some(used) = &sequence.adapter else { return true };
        let numbers =
            self.running.iter().filter_map(|running| Some(running.adapter.as_ref()?.adapter.number));
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.len() < self.most_adapters || numbers.contains(&used.adapter.number)
    }

    /// Drops the sequences that nobody waits for.
    pub(crate) fn drop_abandoned(&mut self) {
        self.waiting.retain(|sequence| !sequence.is_abandoned());
        for index in (0..self.running.len()).rev() {
            if self.running[index].is_abandoned() {
                drop(self.remove(index));
            }
        }
    }

    /// Starts the sequences that have waited longest, as far as the cache has room for their tokens.
    pub(crate) fn start(&mut self) -> Vec<Started> {
        let mut started = Vec::new();
        while self.running.len() < self.most_sequences
            && let Some(place) = self.waiting.iter().position(|sequence| self.has_place_for(sequence))
        {
            let sequence = &self.waiting[place];
            let cached = self.blocks.cached(sequence.root(), &sequence.tokens);
            let needed = sequence.tokens.len().div_ceil(self.blocks.size()) - cached.len();
            // Cached blocks may be among the free ones.
            if needed + cached.len() > self.blocks.free() {
                if !self.running.is_empty() {
                    break;
                }
                if self.make_room() {
                    continue;
                }
            }
            let Some(mut sequence) = self.waiting.remove(place) else { break };
            for block in &cached {
                self.blocks.share(*block);
            }
            let cached_tokens = cached.len() * self.blocks.size();
            sequence.computed = cached_tokens;
            sequence.hash = sequence.root();
            sequence.runs(true);
            for block in sequence.tokens[..sequence.computed].chunks_exact(self.blocks.size()) {
                sequence.hash = Some(Hash::of(sequence.hash, block));
            }
            sequence.blocks = cached;
            self.running.push(sequence);
            let index = self.running.len() - 1;
            let imported = self.import(index);
            let sequence = &mut self.running[index];
            if let Some(taken) = sequence.taken.take() {
                started.push(Started { index, prompt: sequence.prompt, cached: cached_tokens, imported });
                // Who has gone away needs no answer.
                let _ = taken.send(sequence.computed);
            }
        }
        started
    }

    /// Takes blocks for what another engine has computed, where there is such a thing. Gives how many tokens that are. The last
    /// token of a prompt is computed here, or nothing could be predicted.
    fn import(&mut self, index: usize) -> usize {
        let sequence = &self.running[index];
        let tokens = (sequence.prompt - 1).saturating_sub(sequence.computed);
        if sequence.given.is_none() {
            return 0;
        }
        let missing = sequence.prompt.div_ceil(self.blocks.size()) - sequence.blocks.len();
        for _ in 0..missing {
            let Some(block) = self.blocks.take() else { break };
            self.running[index].blocks.push(block);
        }
        self.computed(Step { index, tokens });
        tokens
    }

    /// Gives up the oldest blocks that are kept for another engine. Whether there were any.
    fn make_room(&mut self) -> bool {
        let found = self.shelf.forget_oldest();
        self.take_back();
        found
    }

    /// Plans the next pass: a token of every answer, then as much of the prompts as fits. Where the cache has no room, the
    /// sequence that started last waits again, and its tokens are computed anew.
    pub(crate) fn plan(&mut self) -> Vec<Step> {
        loop {
            let steps = self.steps();
            let needed: usize = steps.iter().map(|step| self.blocks_for(*step)).sum();
            if needed > self.blocks.free() && self.running.len() > 1 {
                let mut preempted = self.remove(self.running.len() - 1);
                preempted.computed = 0;
                preempted.runs(false);
                self.waiting.push_front(preempted);
                continue;
            }
            if needed > self.blocks.free() && self.make_room() {
                continue;
            }
            for step in &steps {
                for _ in 0..self.blocks_for(*step) {
                    let Some(block) = self.blocks.take() else { return Vec::new() };
                    self.running[step.index].blocks.push(block);
                }
            }
            return steps;
        }
    }

    fn steps(&self) -> Vec<Step> {
        let mut order: Vec<usize> = (0..self.running.len()).collect();
        order.sort_by_key(|index| self.running[*index].uncomputed() > 1);
        let mut left = self.most_tokens;
        let mut steps = Vec::new();
        for index in order {
            let tokens = self.running[index].uncomputed().min(left);
            if tokens > 0 {
                steps.push(Step { index, tokens });
                left -= tokens;
            }
        }
        steps
    }

    fn blocks_for(&self, step: Step) -> usize {
        let sequence = &self.running[step.index];
        (sequence.computed + step.tokens).div_ceil(self.blocks.size()).saturating_sub(sequence.blocks.len())
    }

    /// Notes that a step was computed: blocks that it filled can be found by others from now on.
    pub(crate) fn computed(&mut self, step: Step) {
        let size = self.blocks.size();
        let sequence = &mut self.running[step.index];
        let (from, to) = (sequence.computed / size, (sequence.computed + step.tokens) / size);
        sequence.computed += step.tokens;
        let (blocks, tokens) = (&sequence.blocks[from..to], &sequence.tokens[from * size..to * size]);
        sequence.hash = self.blocks.filled(sequence.hash, blocks, tokens);
    }

    /// Takes a sequence out that is complete. Its blocks are kept where another engine goes on with them. Gives how many older
    /// prompts were given up for that, too.
    pub(crate) fn finish(&mut self, index: usize) -> (Sequence, usize) {
        let sequence = &mut self.running[index];
        match sequence.handing.take() {
            None => (self.remove(index), 0),
            Some(handing) => {
                let blocks = std::mem::take(&mut sequence.blocks);
                let given_up = handing.keep(&self.shelf, blocks);
                (self.remove(index), given_up)
            }
        }
    }

    /// Takes a running sequence out and releases its blocks, the last one first: the beginning of a prompt is the part
    /// that others are likeliest to share.
    pub(crate) fn remove(&mut self, index: usize) -> Sequence {
        let mut sequence = self.running.remove(index);
        for block in sequence.blocks.drain(..).rev() {
            self.blocks.release(block);
        }
        sequence
    }
}
