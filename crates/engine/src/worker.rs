//! The thread that computes: one pass after another, for all running sequences at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
        mpsc::Receiver,
    },
    time::Instant,
};

use longboat_serving::Metrics;

use crate::{
    batch::{Batch, Step},
    cache::{Kv, Table},
    model::{Span, Transformer},
    sequence::{Finish, Sequence},
    text::Tokenizer,
};

/// What the thread tells others while it computes.
pub(crate) struct Gauges {
    /// Sequences that were sent and do not run.
    pub(crate) waiting: AtomicI64,
    pub(crate) running: AtomicI64,
    /// The part of the cache that is in use, in millionths.
    pub(crate) cache: AtomicI64,
}

/// Everything that computing needs.
pub(crate) struct Worker {
    pub(crate) transformer: Transformer,
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) kv: Kv,
    pub(crate) batch: Batch,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) gauges: Arc<Gauges>,
}

// === impl Worker ===

impl Worker {
    /// Computes until nobody can send sequences any more.
    pub(crate) fn run(mut self, inbox: &Receiver<Sequence>) {
        loop {
            if self.batch.is_empty() {
                self.tell();
                let Ok(sequence) = inbox.recv() else { return };
                self.batch.push(sequence);
            }
            while self.batch.has_room()
                && let Ok(sequence) = inbox.try_recv()
            {
                self.batch.push(sequence);
            }
            self.pass();
        }
    }

    fn pass(&mut self) {
        self.batch.drop_abandoned();
        for (prompt, cached) in self.batch.start() {
            self.gauges.waiting.fetch_sub(1, Ordering::Relaxed);
            self.metrics.prefix(prompt, cached);
        }
        let steps = self.batch.plan();
        self.tell();
        let weights = match self.compute(&steps) {
            Ok(weights) => weights,
            Err(error) => {
                tracing::error!(%error, "A pass through the model failed; the answers in it are cut.");
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
        let mut finished: Vec<(usize, Finish)> = Vec::new();
        for index in predicting.map(|step| step.index).collect::<Vec<_>>() {
            let Some(weights) = weights.next() else { break };
            let sequence = &mut self.batch.running_mut()[index];
            let finish = sequence.advance(&self.tokenizer, weights);
            let now = Instant::now();
            match sequence.last_token.replace(now) {
                None => self.metrics.first_token.observe((now - sequence.arrived).as_secs_f64()),
                Some(before) => self.metrics.between_tokens.observe((now - before).as_secs_f64()),
            }
            finished.extend(finish.map(|finish| (index, finish)));
        }
        finished.sort_unstable_by_key(|(index, _)| std::cmp::Reverse(*index));
        for (index, Finish(reason)) in finished {
            let sequence = self.batch.remove(index);
            self.metrics.finished(sequence.prompt, sequence.generated(), reason, sequence.arrived.elapsed());
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
                    adapter: sequence.adapter.as_ref().map(|used| &*used.adapter),
                }
            })
            .collect();
        if spans.is_empty() { Ok(Vec::new()) } else { self.transformer.compute(&spans, &mut self.kv) }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a share of the cache")]
    fn tell(&self) {
        let running = i64::try_from(self.batch.running().len()).unwrap_or(i64::MAX);
        self.gauges.running.store(running, Ordering::Relaxed);
        self.gauges.cache.store((self.batch.blocks().usage() * 1e6) as i64, Ordering::Relaxed);
    }
}
