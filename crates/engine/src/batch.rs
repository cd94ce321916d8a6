//! Which sequences run, and which of their tokens are computed next.

use std::collections::VecDeque;

use crate::{
    cache::{Blocks, Hash},
    sequence::Sequence,
};

/// Sequences that wait and those that run, with the blocks of the cache.
pub(crate) struct Batch {
    waiting: VecDeque<Sequence>,
    running: Vec<Sequence>,
    blocks: Blocks,
    /// The most sequences that run.
    most_sequences: usize,
    /// The most tokens of one pass.
    most_tokens: usize,
    /// The most adapters of the sequences that run.
    most_adapters: usize,
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
        most_sequences: usize,
        most_tokens: usize,
        most_adapters: usize,
    ) -> Self {
        Self {
            waiting: VecDeque::new(),
            running: Vec::new(),
            blocks,
            most_sequences,
            most_tokens,
            most_adapters,
        }
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

    /// Starts the sequences that have waited longest, as far as the cache has room for their tokens. Gives how many prompt
    /// tokens each of them found in the cache.
    pub(crate) fn start(&mut self) -> Vec<(usize, usize)> {
        let mut started = Vec::new();
        while self.running.len() < self.most_sequences
            && let Some(place) = self.waiting.iter().position(|sequence| self.has_place_for(sequence))
        {
            let sequence = &self.waiting[place];
            let cached = self.blocks.cached(sequence.root(), &sequence.tokens);
            let needed = sequence.tokens.len().div_ceil(self.blocks.size()) - cached.len();
            // Cached blocks may be among the free ones.
            if needed + cached.len() > self.blocks.free() && !self.running.is_empty() {
                break;
            }
            let Some(mut sequence) = self.waiting.remove(place) else { break };
            for block in &cached {
                self.blocks.share(*block);
            }
            sequence.computed = cached.len() * self.blocks.size();
            sequence.hash = sequence.root();
            sequence.runs(true);
            for block in sequence.tokens[..sequence.computed].chunks_exact(self.blocks.size()) {
                sequence.hash = Some(Hash::of(sequence.hash, block));
            }
            sequence.blocks = cached;
            if let Some(taken) = sequence.taken.take() {
                started.push((sequence.prompt, sequence.computed));
                // Who has gone away needs no answer.
                let _ = taken.send(sequence.computed);
            }
            self.running.push(sequence);
        }
        started
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
        for number in from..to {
            let hash = Hash::of(sequence.hash, &sequence.tokens[number * size..(number + 1) * size]);
            sequence.hash = Some(hash);
            self.blocks.filled(sequence.blocks[number], hash);
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
