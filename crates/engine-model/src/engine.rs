//! An engine in virtual time: a queue, a batch, and the moments at which something happens.
//!
//! The engine does not count tokens one by one. Everything in the batch progresses at a rate that changes only if the batch
//! changes, so the cost of a request does not depend on the length of its answer. Two clocks count the progress: one for
//! answers, which all progress at the same rate, and one for the prompt that is being computed in chunks.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    sync::Arc,
    time::Duration,
};

use crate::{
    cache::{Allocation, BlockHash, KvCache},
    timing::{Batch, Parameters},
};

/// What is left of a step counts as done below this many seconds: sums of floats are not exact.
const ROUNDING_SECONDS: f64 = 1e-9;
const NANOS: f64 = 1e9;

/// A request for an engine.
#[derive(Debug, Clone)]
pub struct Job {
    /// The caller's number of the request.
    pub id: u64,
    /// The hashes of the full blocks of its prompt.
    pub hashes: Arc<[BlockHash]>,
    /// Tokens of its prompt.
    pub prompt_tokens: usize,
    /// Tokens of its answer; at least 1.
    pub output_tokens: usize,
    /// Whether another engine has computed the prompt, so that its KV cache is only received.
    pub is_prefilled: bool,
}

/// Why an engine refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EnqueueError {
    /// The waiting queue is full.
    #[error("the engine's waiting queue is full")]
    QueueFull,
    /// The model does not take so many tokens, or the request would wait for blocks for ever.
    #[error("the request is longer than the model takes, or needs more KV cache than the engine has")]
    TooLong,
}

/// Something that happened to a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// It has a place in the batch and its memory.
    Started {
        /// The request.
        id: u64,
        /// Whether it had to wait for memory, and not only for a place.
        waited_for_memory: bool,
        /// Prompt tokens that were in the cache.
        cached_tokens: usize,
        /// The blocks of its prompt that were not in the cache before.
        added: std::ops::Range<usize>,
        /// Blocks that made room.
        evicted: Vec<BlockHash>,
    },
    /// Its first token was generated.
    FirstToken(u64),
    /// Its last token was generated.
    Finished(u64),
}

/// The load of an engine, as its metrics tell it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Requests that wait.
    pub waiting: usize,
    /// Requests in the batch.
    pub running: usize,
    /// Share of the KV cache in use, 0 to 1.
    pub kv_usage: f64,
}

#[derive(Debug)]
struct WaitingJob {
    job: Job,
    /// The number of changes of the cache when it last left too little memory.
    refused_at: Option<u64>,
}

#[derive(Debug)]
struct RunningJob {
    job: Job,
    held: crate::cache::RequestBlocks,
    has_token: bool,
}

/// The prompt that is being computed in chunks.
#[derive(Debug)]
struct Prefill {
    slot: usize,
    /// The end of the fixed time, in nanoseconds. Until then, the engine is free for others: on a GPU, the fixed time is mostly that
    /// of the server before a forward pass, which several prompts share.
    from: u64,
    /// The rest of the prompt, in tokens.
    tokens: f64,
}

/// An engine.
#[derive(Debug)]
pub struct Engine {
    parameters: Parameters,
    cache: KvCache,
    /// Counts the requests that took or released memory: without a change, asking for memory again is of no use.
    cache_changes: u64,
    waiting: VecDeque<WaitingJob>,
    /// The batch. Free places are reused.
    running: Vec<Option<RunningJob>>,
    free: Vec<usize>,
    /// The moment up to which everything is known, in nanoseconds.
    now: u64,
    /// The progress of everything that is timed by `due`, in seconds of an engine without load.
    clock: f64,
    /// When requests of the batch are due, on `clock`. The bits of positive floats sort like the floats.
    due: BinaryHeap<Reverse<(u64, u64, usize)>>,
    sequence: u64,
    /// Prompts that are computed one after the other, after their fixed time (only with chunks).
    prefills: VecDeque<Prefill>,
}

// === impl Engine ===

impl Engine {
    /// Creates an engine that does nothing yet.
    pub fn new(parameters: Parameters) -> Self {
        Self {
            cache: KvCache::new(parameters.cache_blocks, parameters.block_size),
            cache_changes: 0,
            parameters,
            waiting: VecDeque::new(),
            running: Vec::new(),
            free: Vec::new(),
            now: 0,
            clock: 0.0,
            due: BinaryHeap::new(),
            sequence: 0,
            prefills: VecDeque::new(),
        }
    }

    /// The engine's numbers.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The engine's load.
    pub fn load(&self) -> Load {
        Load { waiting: self.waiting.len(), running: self.batch().running, kv_usage: self.cache.usage() }
    }

    /// The number of leading blocks of a prompt that are in its cache.
    pub fn cached_blocks(&self, hashes: &[BlockHash]) -> usize {
        self.cache.prefix(hashes)
    }

    /// Adds a request at a moment for which [`Self::advance`] was called. It starts at once if there is room.
    ///
    /// # Errors
    /// If the queue is full, or the request is too long for the engine.
    pub fn enqueue(&mut self, job: Job, outputs: &mut Vec<Output>) -> Result<(), EnqueueError> {
        let Parameters { max_num_seqs, max_waiting, block_size, cache_blocks, max_model_len, .. } =
            self.parameters;
        let tokens = job.prompt_tokens + job.output_tokens;
        if tokens > max_model_len || tokens.div_ceil(block_size) > cache_blocks {
            return Err(EnqueueError::TooLong);
        }
        // A request that starts at once has passed through the queue, too.
        let room = max_num_seqs.saturating_sub(self.batch().running);
        if self.waiting.len() >= max_waiting.saturating_add(room) {
            return Err(EnqueueError::QueueFull);
        }
        self.waiting.push_back(WaitingJob { job, refused_at: None });
        self.start(outputs);
        Ok(())
    }

    /// Returns the next moment at which something happens, in nanoseconds.
    pub fn next(&self) -> Option<u64> {
        let (rate, prefill) = self.rates();
        let due = self.due.peek().map(|Reverse((due, ..))| (f64::from_bits(*due) - self.clock) / rate);
        let seconds = due.into_iter().chain(prefill.map(|(seconds, _)| seconds)).min_by(f64::total_cmp)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
        let nanos = (seconds.max(0.0) * NANOS).ceil() as u64;
        Some(self.now.saturating_add(nanos))
    }

    /// Lets time pass up to a moment, which must not be later than [`Self::next`].
    pub fn advance(&mut self, now: u64, outputs: &mut Vec<Output>) {
        let seconds = Duration::from_nanos(now.saturating_sub(self.now)).as_secs_f64();
        let (rate, prefill) = self.rates();
        // The rates above are those until now: what follows changes the batch.
        let before = std::mem::replace(&mut self.now, now);
        self.clock += seconds * rate;
        if let (Some(head), Some((_, per_second))) = (self.prefills.front_mut(), prefill)
            && head.from <= before
        {
            if per_second.is_finite() {
                head.tokens -= seconds * per_second;
            } else {
                head.tokens = 0.0;
            }
            // A rounding error of the time is one of `per_second` as many tokens.
            if head.tokens <= ROUNDING_SECONDS * per_second.max(1.0) {
                let slot = head.slot;
                self.prefills.pop_front();
                self.first_token(slot, outputs);
            }
        }
        while let Some(Reverse((due, _, slot))) = self.due.peek().copied()
            && f64::from_bits(due) <= self.clock + ROUNDING_SECONDS
        {
            self.due.pop();
            if self.running[slot].as_ref().is_some_and(|running| running.has_token) {
                self.finish(slot, outputs);
            } else {
                self.first_token(slot, outputs);
            }
        }
        self.start(outputs);
    }

    /// Returns the rate of the clock, and of the first prompt in chunks: the seconds to the end of its part, and its progress
    /// in a second.
    fn rates(&self) -> (f64, Option<(f64, f64)>) {
        let (batch, timing) = (self.batch(), &self.parameters.timing);
        let plain = 1.0 / timing.slowdown(batch);
        let Some(head) = self.prefills.front() else { return (plain, None) };
        if head.from > self.now {
            return (plain, Some((Duration::from_nanos(head.from - self.now).as_secs_f64(), 0.0)));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of tokens")]
        let left = head.tokens.ceil().max(1.0) as usize;
        let chunk = timing.chunk(batch, left);
        let step = timing.step(batch, chunk).as_secs_f64();
        if step <= 0.0 {
            return (plain, Some((0.0, f64::INFINITY)));
        }
        #[expect(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^52")]
        let per_second = chunk as f64 / step;
        let seconds = head.tokens.max(0.0) / per_second;
        let rate = timing.between_tokens.as_secs_f64() / step;
        // Without time between tokens, answers do not wait for the prompt.
        (if rate > 0.0 { rate } else { plain }, Some((seconds, per_second)))
    }

    fn batch(&self) -> Batch {
        let running = self.running.len() - self.free.len();
        Batch { running, decoding: running - self.prefills.len(), max_num_seqs: self.parameters.max_num_seqs }
    }

    /// Starts the requests for which there is room. As in vLLM, none passes a request that waits for memory.
    fn start(&mut self, outputs: &mut Vec<Output>) {
        while self.batch().running < self.parameters.max_num_seqs
            && let Some(next) = self.waiting.front_mut()
            && next.refused_at != Some(self.cache_changes)
        {
            let Job { hashes, prompt_tokens, output_tokens, .. } = &next.job;
            let Some(allocation) = self.cache.take(hashes, *prompt_tokens, *output_tokens, 0) else {
                next.refused_at = Some(self.cache_changes);
                return;
            };
            self.cache_changes += 1;
            if let Some(next) = self.waiting.pop_front() {
                self.run(next, allocation, outputs);
            }
        }
    }

    fn run(&mut self, next: WaitingJob, allocation: Allocation, outputs: &mut Vec<Output>) {
        let WaitingJob { job, refused_at } = next;
        let Allocation { held, added, evicted } = allocation;
        let cached_tokens = held.cached_tokens();
        let waited_for_memory = refused_at.is_some();
        outputs.push(Output::Started { id: job.id, waited_for_memory, cached_tokens, added, evicted });
        let timing = self.parameters.timing;
        let uncached = job.prompt_tokens.saturating_sub(cached_tokens);
        // A prompt that was received gets its first token from a pass for answers.
        let until_token = if job.is_prefilled {
            Some(timing.transfer(job.prompt_tokens) + timing.between_tokens)
        } else if timing.max_batched_tokens.is_none() {
            Some(timing.prefill(uncached))
        } else {
            None
        };
        let running = Some(RunningJob { job, held, has_token: false });
        let slot = if let Some(slot) = self.free.pop() {
            self.running[slot] = running;
            slot
        } else {
            self.running.push(running);
            self.running.len() - 1
        };
        if let Some(time) = until_token {
            self.wake(slot, time);
        } else {
            #[expect(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^52")]
            let tokens = uncached as f64;
            let fixed = u64::try_from(timing.first_token.as_nanos()).unwrap_or(u64::MAX);
            // All prompts have the same fixed time, so the first to start is the first that can be computed.
            self.prefills.push_back(Prefill { slot, from: self.now.saturating_add(fixed), tokens });
        }
    }

    fn wake(&mut self, slot: usize, after: Duration) {
        self.sequence += 1;
        // Bits of positive floats have the order of the numbers, and can be compared as a whole, unlike floats.
        let due = (self.clock + after.as_secs_f64()).to_bits();
        self.due.push(Reverse((due, self.sequence, slot)));
    }

    fn first_token(&mut self, slot: usize, outputs: &mut Vec<Output>) {
        let Some(running) = &mut self.running[slot] else { return };
        running.has_token = true;
        outputs.push(Output::FirstToken(running.job.id));
        let further = u32::try_from(running.job.output_tokens.saturating_sub(1)).unwrap_or(u32::MAX);
        if further == 0 {
            return self.finish(slot, outputs);
        }
        self.wake(slot, self.parameters.timing.between_tokens.saturating_mul(further));
    }

    fn finish(&mut self, slot: usize, outputs: &mut Vec<Output>) {
        let Some(running) = self.running[slot].take() else { return };
        self.free.push(slot);
        self.cache.release(&running.held);
        self.cache_changes += 1;
        outputs.push(Output::Finished(running.job.id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cache::block_hashes, timing::Timing};

    fn parameters(timing: Timing) -> Parameters {
        let max_model_len = 2000;
        Parameters {
            max_num_seqs: 4,
            max_waiting: 2,
            block_size: 16,
            cache_blocks: 64,
            max_model_len,
            timing,
        }
    }

    fn job(id: u64, prompt_tokens: usize, output_tokens: usize) -> Job {
        let bytes: Vec<u8> = (0..prompt_tokens as u64)
            .flat_map(|token| ((id << 16) + token).to_le_bytes()[..4].to_vec())
            .collect();
        Job { id, hashes: block_hashes(&bytes, 16), prompt_tokens, output_tokens, is_prefilled: false }
    }

    /// Runs until nothing happens any more. Returns the first tokens and the ends, with their milliseconds.
    fn run(engine: &mut Engine, outputs: &mut Vec<Output>) -> Vec<(u64, &'static str, u64)> {
        let mut seen = Vec::new();
        while let Some(now) = engine.next() {
            engine.advance(now, outputs);
            for output in outputs.drain(..) {
                match output {
                    Output::FirstToken(id) => seen.push((id, "first", now / 1_000_000)),
                    Output::Finished(id) => seen.push((id, "end", now / 1_000_000)),
                    Output::Started { .. } => {}
                }
            }
        }
        seen
    }

    #[test]
    fn a_request_alone_takes_the_configured_times() {
        let mut engine = Engine::new(parameters(Timing::realistic()));
        let mut outputs = Vec::new();
        engine.enqueue(job(1, 100, 11), &mut outputs).unwrap();
        assert_eq!(run(&mut engine, &mut outputs), [(1, "first", 21), (1, "end", 81)]);
        engine.enqueue(job(1, 100, 1), &mut outputs).unwrap();
        // 96 tokens are cached.
        assert_eq!(run(&mut engine, &mut outputs), [(1, "first", 96), (1, "end", 96)]);
    }

    #[test]
    fn a_batch_slows_down_and_speeds_up_as_requests_come_and_go() {
        let timing =
            Timing { factor_under_load: 4.0, between_tokens: Duration::from_millis(10), ..Timing::default() };
        let mut engine = Engine::new(parameters(timing));
        let mut outputs = Vec::new();
        engine.enqueue(job(1, 16, 11), &mut outputs).unwrap();
        engine.enqueue(job(2, 16, 6), &mut outputs).unwrap();
        // With two of four, everything takes twice the time: 5 tokens of both in 100 ms, then 5 of one in 50 ms.
        let seen = run(&mut engine, &mut outputs);
        assert_eq!(seen, [(1, "first", 0), (2, "first", 0), (2, "end", 100), (1, "end", 150)]);
    }

    #[test]
    fn prompts_in_chunks_wait_for_each_other_and_hold_answers_up() {
        let timing = Timing {
            prefill_per_token: Duration::from_millis(1),
            between_tokens: Duration::from_millis(10),
            max_batched_tokens: Some(41),
            ..Timing::default()
        };
        let mut engine = Engine::new(parameters(timing));
        let mut outputs = Vec::new();
        engine.enqueue(job(1, 80, 5), &mut outputs).unwrap();
        engine.enqueue(job(2, 80, 1), &mut outputs).unwrap();
        // The first prompt takes 80 ms. Then each step has a token of the answer and 40 of the second prompt: 50 ms.
        let seen = run(&mut engine, &mut outputs);
        assert_eq!(seen, [(1, "first", 80), (2, "first", 180), (2, "end", 180), (1, "end", 200)]);
    }

    #[test]
    fn prompts_in_chunks_do_not_wait_for_the_fixed_time_of_each_other() {
        let timing = Timing {
            first_token: Duration::from_millis(50),
            prefill_per_token: Duration::from_millis(1),
            max_batched_tokens: Some(41),
            ..Timing::default()
        };
        let mut engine = Engine::new(parameters(timing));
        let mut outputs = Vec::new();
        for id in 1..4 {
            engine.enqueue(job(id, 16, 1), &mut outputs).unwrap();
        }
        let firsts: Vec<_> =
            run(&mut engine, &mut outputs).into_iter().filter(|seen| seen.1 == "first").collect();
        assert_eq!(firsts, [(1, "first", 66), (2, "first", 82), (3, "first", 98)]);
    }

    #[test]
    fn the_batch_the_queue_and_the_memory_have_limits() {
        let mut engine = Engine::new(parameters(Timing::realistic()));
        let mut outputs = Vec::new();
        assert_eq!(engine.enqueue(job(0, 1020, 10), &mut outputs), Err(EnqueueError::TooLong));
        let short = Parameters { max_model_len: 100, ..parameters(Timing::realistic()) };
        assert_eq!(Engine::new(short).enqueue(job(0, 91, 10), &mut outputs), Err(EnqueueError::TooLong));
        Engine::new(short).enqueue(job(0, 90, 10), &mut Vec::new()).unwrap();
        for id in 0..6 {
            engine.enqueue(job(id, 16, 4), &mut outputs).unwrap();
        }
        assert_eq!(engine.enqueue(job(6, 16, 4), &mut outputs), Err(EnqueueError::QueueFull));
        assert_eq!((engine.load().waiting, engine.load().running), (2, 4));
        run(&mut engine, &mut outputs);
        engine.enqueue(job(7, 900, 4), &mut outputs).unwrap();
        engine.enqueue(job(8, 900, 4), &mut outputs).unwrap();
        engine.enqueue(job(9, 16, 4), &mut outputs).unwrap();
        assert_eq!((engine.load().waiting, engine.load().running), (2, 1), "no request passes another one");
        let started = |id: u64, outputs: &[Output]| {
            outputs.iter().any(|output| {
                matches!(output, Output::Started { id: is, waited_for_memory: true, .. } if *is == id)
            })
        };
        while let Some(now) = engine.next() {
            engine.advance(now, &mut outputs);
        }
        assert!(started(8, &outputs) && !started(7, &outputs));
        assert_eq!(engine.load(), Load { waiting: 0, running: 0, kv_usage: 0.0 });
    }

    #[test]
    fn a_received_prompt_costs_its_transfer() {
        let timing = Timing {
            transfer: Duration::from_millis(5),
            transfer_per_token: Duration::from_millis(1),
            ..Timing::realistic()
        };
        let mut engine = Engine::new(parameters(timing));
        let mut outputs = Vec::new();
        engine.enqueue(Job { is_prefilled: true, ..job(1, 16, 2) }, &mut outputs).unwrap();
        assert_eq!(run(&mut engine, &mut outputs), [(1, "first", 27), (1, "end", 33)]);
    }
}
