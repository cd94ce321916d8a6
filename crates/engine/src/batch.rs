//! Schedules the sequences that run, and the tokens that are computed next.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
    time::Instant,
};

use prometheus_client::metrics::counter::Counter;

use crate::{
    Args,
    cache::{Blocks, Hash},
    lora::Adapter,
    sequence::Sequence,
    transfer::Leases,
};

/// The waiting and the running sequences, with the blocks of the KV cache.
pub(crate) struct Batch {
    waiting: VecDeque<Sequence>,
    running: Vec<Sequence>,
    blocks: Blocks,
    /// The adapters that may have cached blocks, with their numbers.
    adapters: Vec<(u64, Weak<Adapter>)>,
    /// Counts the sequences that went back to the queue.
    preemptions: Counter,
    /// The leases of blocks to other engines.
    leases: Arc<Leases>,
    /// The most running sequences.
    max_sequences: usize,
    /// The most tokens in one forward pass.
    max_tokens: usize,
    /// The most adapters of the running sequences.
    max_adapters: usize,
}

/// A sequence that has just started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SequenceStart {
    /// Its index among the running sequences.
    pub(crate) index: usize,
    /// The tokens of its prompt.
    pub(crate) prompt: usize,
    /// The prompt tokens that were found in the cache.
    pub(crate) cached: usize,
    /// The prompt tokens that another engine has computed.
    pub(crate) imported: usize,
}

/// The tokens of a running sequence that are computed in one forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// The sequence's index among the running sequences.
    pub(crate) index: usize,
    pub(crate) tokens: usize,
}

// === impl Batch ===

impl Batch {
    pub(crate) fn new(blocks: Blocks, leases: Arc<Leases>, preemptions: Counter, args: &Args) -> Self {
        Self {
            waiting: VecDeque::new(),
            running: Vec::new(),
            blocks,
            adapters: Vec::new(),
            preemptions,
            leases,
            max_sequences: args.max_num_seqs,
            max_tokens: args.max_batched_tokens,
            max_adapters: args.lora.max_adapters,
        }
    }

    /// Whether [`Self::reclaim`] may have something to do without a new sequence.
    pub(crate) fn may_reclaim(&self) -> bool {
        !self.leases.is_empty() || !self.adapters.is_empty()
    }

    /// Releases the blocks that no other engine needs any more, and evicts those of adapters that were unloaded or replaced.
    pub(crate) fn reclaim(&mut self) {
        let Self { adapters, blocks, .. } = self;
        // An adapter that is loaded again has another number. Its former blocks are never found, but pickers would count them.
        adapters.retain(|(number, adapter)| {
            let is_loaded = adapter.strong_count() > 0;
            if !is_loaded {
                blocks.evict_adapter(*number);
            }
            is_loaded
        });
        let releasable = self.leases.take_releasable(Instant::now());
        // As in vLLM, the last block first: the block that is free for longest is taken first, and the beginning of a prompt is
        // shared most often.
        for block in releasable.into_iter().rev() {
            self.blocks.release(block);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
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

    /// Whether a sequence may run with its adapter: a running sequence already uses the adapter, or the limit of adapters is
    /// not reached.
    fn has_adapter_slot(&self, sequence: &Sequence) -> bool {
        let Some(lease) = &sequence.adapter else { return true };
        let numbers =
            self.running.iter().filter_map(|running| Some(running.adapter.as_ref()?.adapter.number));
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.len() < self.max_adapters || numbers.contains(&lease.adapter.number)
    }

    /// Whether a running sequence is computing blocks that this one will find in the cache, as the answers to one prompt do.
    fn awaits_prefix(&self, sequence: &Sequence) -> bool {
        let size = self.blocks.size();
        // A prompt that another engine has computed needs no other one.
        let computing = self.running.iter().filter(|running| running.computed < running.prompt);
        self.blocks.caches_prefixes()
            && sequence.imported.is_none()
            && computing.filter(|running| running.root() == sequence.root()).any(|running| {
                let prompt = &running.tokens[..running.prompt];
                let pairs = prompt.chunks_exact(size).zip(sequence.tokens.chunks_exact(size));
                let shared = pairs.take_while(|(theirs, ours)| theirs == ours).count();
                shared * size > running.computed
            })
    }

    /// Drops the sequences whose clients have disconnected.
    pub(crate) fn drop_aborted(&mut self) {
        self.waiting.retain(|sequence| !sequence.is_aborted());
        // From the end, because removing a sequence moves those behind it.
        for index in (0..self.running.len()).rev() {
            if self.running[index].is_aborted() {
                drop(self.remove(index));
            }
        }
    }

    /// Starts the sequences that have waited longest, while the next forward pass has tokens for them and the cache has blocks.
    pub(crate) fn start(&mut self) -> Vec<SequenceStart> {
        let mut started = Vec::new();
        while self.running.len() < self.max_sequences
            && let Some(position) = self
                .waiting
                .iter()
                .position(|sequence| self.has_adapter_slot(sequence) && !self.awaits_prefix(sequence))
        {
            // As in vLLM, running sequences come first: one that would get no token in the next pass goes on waiting.
            let steps = self.steps();
            if steps.iter().map(|step| step.tokens).sum::<usize>() >= self.max_tokens {
                break;
            }
            // The blocks that running sequences take in the next pass are not free. A sequence that took them would be preempted.
            let planned: usize = steps.iter().map(|step| self.blocks_for(*step)).sum();
            let sequence = &self.waiting[position];
            let cached = self.blocks.cached(sequence.root(), &sequence.tokens);
            let needed = sequence.tokens.len().div_ceil(self.blocks.size()) - cached.len();
            // Sharing a cached block that nobody uses takes it from the free ones.
            let unused = cached.iter().filter(|block| self.blocks.is_free(**block)).count();
            if needed + unused + planned > self.blocks.free() {
                // A running sequence will free blocks. Without one, only leased blocks can become free.
                if !self.running.is_empty() {
                    break;
                }
                if self.expire_oldest_lease() {
                    continue;
                }
            }
            let Some(mut sequence) = self.waiting.remove(position) else { break };
            // Shared before further blocks are taken, because taking one would evict it from the cache.
            for block in &cached {
                self.blocks.share(*block);
            }
            let cached_tokens = cached.len() * self.blocks.size();
            sequence.computed = cached_tokens;
            sequence.hash = sequence.root();
            sequence.set_running(true);
            if let Some(lease) = &sequence.adapter {
                let number = lease.adapter.number;
                if self.adapters.iter().all(|(known, _)| *known != number) {
                    self.adapters.push((number, Arc::downgrade(&lease.adapter)));
                }
            }
            for block in sequence.tokens[..sequence.computed].chunks_exact(self.blocks.size()) {
                sequence.hash = Some(Hash::of(sequence.hash, block));
            }
            sequence.blocks = cached;
            self.running.push(sequence);
            let index = self.running.len() - 1;
            let imported = self.import(index);
            let sequence = &mut self.running[index];
            // One that was preempted has started before.
            if let Some(notice) = sequence.start_notice.take() {
                started.push(SequenceStart {
                    index,
                    prompt: sequence.prompt,
                    cached: cached_tokens,
                    imported,
                });
                // The send fails if the client has disconnected.
                let _ = notice.send(sequence.computed);
            }
        }
        started
    }

    /// If another engine has computed the prompt, takes blocks for its keys and values. Returns the number of these tokens.
    /// The last token of the prompt is always computed here, because it predicts the first token of the answer.
    fn import(&mut self, index: usize) -> usize {
        let sequence = &self.running[index];
        let tokens = (sequence.prompt - 1).saturating_sub(sequence.computed);
        if sequence.imported.is_none() {
            return 0;
        }
        let missing = sequence.prompt.div_ceil(self.blocks.size()) - sequence.blocks.len();
        for _ in 0..missing {
            let Some(block) = self.blocks.take() else { break };
            self.running[index].blocks.push(block);
        }
        // From now on other sequences find these blocks, whose numbers are not there yet. The worker writes them before the next
        // forward pass.
        self.computed(Step { index, tokens });
        tokens
    }

    /// Releases the blocks of the oldest lease. Returns whether there was one.
    fn expire_oldest_lease(&mut self) -> bool {
        let expired = self.leases.expire_oldest();
        self.reclaim();
        expired
    }

    /// Plans the next forward pass: one token for every answer, then as many prompt tokens as fit. If the cache has too few
    /// blocks, the sequence that started last goes back to the queue and is computed again later.
    pub(crate) fn plan(&mut self) -> Vec<Step> {
        loop {
            let steps = self.steps();
            let needed: usize = steps.iter().map(|step| self.blocks_for(*step)).sum();
            // As in vLLM, the last one goes, so that the oldest answer always gets on. One alone is never preempted: its tokens
            // fit into the cache (`Engine::load_from`), and a repetition would fail in the same place.
            if needed > self.blocks.free() && self.running.len() > 1 {
                let mut preempted = self.remove(self.running.len() - 1);
                preempted.computed = 0;
                preempted.set_running(false);
                self.preemptions.inc();
                self.waiting.push_front(preempted);
                continue;
            }
            if needed > self.blocks.free() && self.expire_oldest_lease() {
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
        // A long prompt must not delay the next token of an answer. The sort is stable, so prompts keep their order.
        order.sort_by_key(|index| self.running[*index].uncomputed() > 1);
        let mut left = self.max_tokens;
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

    /// Records that a step was computed. Other sequences can now find the blocks that it has filled.
    pub(crate) fn computed(&mut self, step: Step) {
        let size = self.blocks.size();
        let sequence = &mut self.running[step.index];
        // Only full blocks get a hash: the others still change, so nobody may share them.
        let (from, to) = (sequence.computed / size, (sequence.computed + step.tokens) / size);
        sequence.computed += step.tokens;
        let (blocks, tokens) = (&sequence.blocks[from..to], &sequence.tokens[from * size..to * size]);
        let adapter = sequence.adapter.as_ref().map(|lease| &*lease.adapter);
        sequence.hash = self.blocks.filled(adapter, sequence.hash, blocks, tokens);
    }

    /// Removes a complete sequence. If another engine continues it, its blocks are leased.
    pub(crate) fn finish(&mut self, index: usize) -> Sequence {
        let sequence = &mut self.running[index];
        if let Some(handoff) = sequence.handoff.take() {
            handoff.lease(&self.leases, std::mem::take(&mut sequence.blocks));
        }
        self.remove(index)
    }

    /// Removes a running sequence and releases its blocks. The last block is released first, so that the beginning of the
    /// prompt, which other prompts are most likely to share, stays longest.
    pub(crate) fn remove(&mut self, index: usize) -> Sequence {
        let mut sequence = self.running.remove(index);
        for block in sequence.blocks.drain(..).rev() {
            self.blocks.release(block);
        }
        sequence
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::mpsc;

    use super::*;
    use crate::{
        gauges::SequenceGauge,
        lora::Usage,
        sample::{BadWords, Sampler, tests::sampling},
        text::{Patterns, Pieces, Stops, Tokenizer},
    };

    fn sequence(tokens: &[u32]) -> Sequence {
        let (events, _) = mpsc::channel(1);
        Sequence {
            tokens: tokens.to_vec(),
            prompt: tokens.len(),
            limit: 1,
            sampling: Arc::new(sampling()),
            bad_words: BadWords::new(&[], &Tokenizer::of_bytes()),
            sampler: Sampler::new(&sampling(), tokens, 0),
            pieces: Pieces::default(),
            stops: Stops::new(Patterns::new(&[]), false),
            form: None,
            calls: None,
            choice: 0,
            events,
            unsent: Vec::new(),
            start_notice: None,
            adapter: None,
            gauge: SequenceGauge::waiting(&Arc::default()),
            blocks: Vec::new(),
            computed: 0,
            hash: None,
            handoff: None,
            imported: None,
            arrived: Instant::now(),
            last_token: None,
        }
    }

    /// A batch of up to 4 sequences, whose cache has blocks of 2 tokens.
    fn batch(blocks: usize, max_tokens: usize) -> Batch {
        let leases = Arc::new(Leases::new(Duration::ZERO, 0, Counter::default()));
        let args =
            Args::parse(&["/m", "--max-num-seqs=4", &format!("--max-num-batched-tokens={max_tokens}")]);
        Batch::new(Blocks::new(blocks, 2, true, None), leases, Counter::default(), &args.unwrap())
    }

    #[test]
    fn sequences_start_while_the_next_pass_has_tokens_and_blocks_for_them() {
        // With 7 tokens, the third one has to wait for tokens. With 5 blocks, the third one has to wait for blocks.
        for (blocks, max_tokens) in [(64, 7), (5, 64)] {
            let mut batch = batch(blocks, max_tokens);
            for prompt in [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]] {
                batch.push(sequence(&prompt));
            }
            batch.start();
            let planned: usize = batch.plan().iter().map(|step| step.tokens).sum();
            assert_eq!((planned, batch.running().len()), (max_tokens.min(8), 2), "{blocks} blocks");
        }
    }

    #[test]
    fn blocks_that_a_running_sequence_uses_take_no_free_ones() {
        let mut batch = batch(4, 64);
        batch.push(sequence(&[1, 2, 3, 4, 5, 6]));
        batch.start();
        for step in batch.plan() {
            batch.computed(step);
        }
        assert_eq!(batch.blocks().free(), 1);
        batch.push(sequence(&[1, 2, 3, 4, 5, 6, 7]));
        batch.start();
        assert_eq!(batch.running().len(), 2);
        assert_eq!(batch.plan().last(), Some(&Step { index: 1, tokens: 1 }));
    }

    #[test]
    fn a_sequence_without_blocks_for_its_next_token_is_preempted_and_counted() {
        let mut batch = batch(4, 64);
        batch.push(sequence(&[1, 2, 3]));
        batch.push(sequence(&[4, 5, 6]));
        batch.start();
        for step in batch.plan() {
            batch.computed(step);
        }
        batch.running_mut()[0].tokens.extend([7, 8]);
        assert_eq!(batch.plan(), [Step { index: 0, tokens: 2 }]);
        assert_eq!((batch.running().len(), batch.preemptions.get()), (1, 1));
    }

    #[test]
    fn blocks_of_an_adapter_go_with_the_adapter() {
        let mut batch = batch(4, 64);
        let prompt = [1, 2, 3, 4];
        let adapter = Arc::new(Adapter::empty("poet", 7));
        let root = Hash::root(Some(7));
        batch.push(Sequence { adapter: Some(Arc::<Usage>::default().lease(adapter)), ..sequence(&prompt) });
        batch.start();
        for step in batch.plan() {
            batch.computed(step);
        }
        batch.reclaim();
        assert_eq!(batch.blocks().cached(root, &prompt).len(), 1, "it is in use");
        drop(batch.remove(0));
        batch.reclaim();
        assert_eq!(batch.blocks().cached(root, &prompt), []);
        assert!(!batch.may_reclaim());
    }
}
