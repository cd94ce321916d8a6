//! The computing thread: one forward pass after the other, each for all running sequences.

use std::{
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use longboat_serving::Metrics;
use parking_lot::{RwLock, RwLockWriteGuard};

use crate::{
    batch::{Batch, SequenceStart, Step},
    cache::{Kv, Table},
    gauges::Gauges,
    model::{Span, Transformer},
    sequence::Sequence,
    text::Tokenizer,
};

/// How often an idle thread checks whether other engines have fetched their blocks, and whether adapters were unloaded.
const RECLAIM_INTERVAL: Duration = Duration::from_millis(50);

/// The state of the computing thread.
pub(crate) struct Worker {
    pub(crate) transformer: Transformer,
    pub(crate) tokenizer: Arc<Tokenizer>,
    /// Other engines read it between forward passes.
    pub(crate) kv: Arc<RwLock<Kv>>,
    pub(crate) batch: Batch,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) gauges: Arc<Gauges>,
}

// === impl Worker ===

impl Worker {
    /// Computes until all senders are dropped.
    pub(crate) fn run(mut self, inbox: &Receiver<Sequence>) {
        loop {
            // Before new sequences start, so that these find the blocks.
            self.batch.reclaim();
            if self.batch.is_empty() {
                self.publish_cache_usage();
                // Nothing wakes this thread when another engine has fetched its blocks or has given up, or when an adapter is
                // unloaded, so it looks from time to time.
                let next = if self.batch.may_reclaim() {
                    inbox.recv_timeout(RECLAIM_INTERVAL)
                } else {
                    inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
                };
                match next {
                    Ok(sequence) => self.batch.push(sequence),
                    Err(RecvTimeoutError::Timeout) => continue,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
            // All of them, so that those whose clients disconnect are noticed and do not hold a place in the queue.
            for sequence in inbox.try_iter() {
                self.batch.push(sequence);
            }
            self.pass();
        }
    }

    fn pass(&mut self) {
        // Before new sequences start, so that these find the blocks of clients that have disconnected.
        self.batch.drop_aborted();
        for started in self.batch.start() {
            let waited = self.batch.running()[started.index].arrived.elapsed();
            self.metrics.queue_time.observe(waited.as_secs_f64());
            self.metrics.prefix(started.prompt, started.cached);
            self.import(started);
        }
        let steps = self.batch.plan();
        self.publish_cache_usage();
        let weights = match self.compute(&steps) {
            Ok(weights) => weights,
            Err(error) => {
                tracing::error!(%error, "A forward pass failed, so its answers are cut off.");
                // From the end, because removing a sequence moves those behind it.
                for index in (0..self.batch.running().len()).rev() {
                    drop(self.batch.remove(index));
                }
                return;
            }
        };
        for step in &steps {
            self.batch.computed(*step);
        }
        let mut weights = weights.into_iter();
        let predicting = steps.iter().filter(|step| self.batch.running()[step.index].uncomputed() == 0);
        let mut finished: Vec<(usize, &'static str)> = Vec::new();
        for index in predicting.map(|step| step.index).collect::<Vec<_>>() {
            let Some(weights) = weights.next() else { break };
            let sequence = &mut self.batch.running_mut()[index];
            let before = sequence.generated();
            let finish = sequence.advance(&self.tokenizer, weights);
            self.metrics.generated(sequence.generated() - before);
            let now = Instant::now();
            match sequence.last_token.replace(now) {
                None => {
                    self.metrics.processed(sequence.prompt);
                    self.metrics.first_token.observe((now - sequence.arrived).as_secs_f64());
                }
                Some(before) => self.metrics.between_tokens.observe((now - before).as_secs_f64()),
            }
            finished.extend(finish.map(|finish| (index, finish)));
        }
        // From the highest index down, because removing a sequence moves those behind it.
        finished.sort_unstable_by_key(|(index, _)| std::cmp::Reverse(*index));
        for (index, reason) in finished {
            let sequence = self.batch.finish(index);
            self.metrics.finished(reason, sequence.arrived.elapsed());
        }
    }

    /// Writes the blocks that another engine has computed into the cache.
    fn import(&mut self, SequenceStart { index, prompt, cached, imported }: SequenceStart) {
        let sequence = &mut self.batch.running_mut()[index];
        let Some(blocks) = sequence.imported.take() else { return };
        self.metrics.external(prompt - cached, imported);
        let mut kv = self.kv.write();
        let numbers = kv.block_bytes() / size_of::<f32>();
        // Blocks that were in the cache already have this content, and other sequences share them.
        let cached_blocks = cached / self.batch.blocks().size();
        let blocks = self.batch.running()[index].blocks.iter().zip(blocks.numbers.chunks_exact(numbers));
        for (block, numbers) in blocks.skip(cached_blocks) {
            kv.write(*block, numbers);
        }
    }

    fn compute(&mut self, steps: &[Step]) -> candle_core::Result<Vec<Vec<f32>>> {
        let spans: Vec<Span<'_>> = steps
            .iter()
            .map(|step| {
                let sequence = &self.batch.running()[step.index];
                Span {
                    tokens: &sequence.tokens[sequence.computed..sequence.computed + step.tokens],
                    start: sequence.computed,
                    table: Table(&sequence.blocks),
                    predicts: step.tokens == sequence.uncomputed(),
                    adapter: sequence.adapter.as_ref().map(|lease| &*lease.adapter),
                }
            })
            .collect();
        if spans.is_empty() {
            return Ok(Vec::new());
        }
        let mut kv = self.kv.write();
        let computed = self.transformer.compute(&spans, &mut kv);
        // A reader for another engine gets its turn before the next forward pass.
        RwLockWriteGuard::unlock_fair(kv);
        computed
    }

    #[expect(clippy::cast_possible_truncation, reason = "a share of the cache")]
    fn publish_cache_usage(&self) {
        self.gauges.cache.store((self.batch.blocks().usage() * 1e6) as i64, Ordering::Relaxed);
    }
}
