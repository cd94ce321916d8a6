//! The simulated engine: queues requests, holds their memory, and spends their time.

pub(crate) mod encoder;
mod events;
pub(crate) mod storage;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, futures::Notified},
    time::Instant,
};

use self::encoder::Encoder;
use longboat_engine_model::{Allocation, Batch, BlockHash, KvCache, RequestBlocks, block_hashes};
use longboat_serving::{Metrics, Refusal, kv_events::Publisher};

use crate::{
    args::Args,
    caches::{CacheSources, Caches},
    media::Side,
};

/// The simulated engine. There is one per process.
pub(crate) struct Engine {
    pub(crate) args: Args,
    pub(crate) metrics: Metrics,
    /// Handles embeddings of images, sounds and videos. `None` if the model is not multimodal.
    pub(crate) encoder: Option<Encoder>,
    /// Publishes the events of the cache.
    pub(crate) events: Option<Arc<Publisher>>,
    cache: Mutex<KvCache>,
    /// Held by the request that starts next. The lock is fair, so no request passes one that waits for a place or for memory.
    admission: tokio::sync::Mutex<()>,
    released: Notify,
    // Counters are read by themselves and guard no other memory, so their order is always `Relaxed`.
    waiting: AtomicUsize,
    running: AtomicUsize,
    /// Prompts in chunks are computed one after the other, in the order of their arrival. The value is the end of the last one.
    chunks: tokio::sync::Mutex<Option<Instant>>,
    /// The running requests that generate tokens.
    decoding: AtomicUsize,
    /// The tokens of a prompt in the forward pass of this moment, if prompts are computed in chunks.
    chunk_tokens: AtomicUsize,
}

/// A running request. Dropping it releases its slot and its blocks.
pub(crate) struct RunningRequest {
    engine: Arc<Engine>,
    held: RequestBlocks,
    prompt_tokens: usize,
    arrived: Instant,
    /// The end of the time that was spent so far. `None` before the first part of it.
    due: Mutex<Option<Instant>>,
    is_decoding: AtomicBool,
}

// === impl Engine ===

impl Engine {
    pub(crate) fn new(args: Args) -> Self {
        let events = args.server.kv_events.clone().and_then(Publisher::new);
        let mut metrics =
            Metrics::new(&args.server.names[0], args.parameters.block_size, args.parameters.cache_blocks);
        let encoder = args.media.media().map(|_| Encoder::new(metrics.encodings()));
        Self {
            metrics,
            encoder,
            cache: Mutex::new(KvCache::new(args.parameters.cache_blocks, args.parameters.block_size)),
            admission: tokio::sync::Mutex::new(()),
            events,
            released: Notify::new(),
            waiting: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            chunks: tokio::sync::Mutex::new(None),
            decoding: AtomicUsize::new(0),
            chunk_tokens: AtomicUsize::new(0),
            args,
        }
    }

    /// Refuses a request that would wait for blocks for ever.
    pub(crate) fn fits(&self, tokens: usize) -> Result<(), Refusal> {
        let (needed, all) =
            (tokens.div_ceil(self.args.parameters.block_size), self.args.parameters.cache_blocks);
        if needed <= all {
            return Ok(());
        }
        let message = format!("the request needs {needed} blocks of KV cache, the engine has {all}.");
        Err(Refusal::bad_request(message))
    }

    /// Waits for a place in the batch and for memory. Blocks of the prompt that are in a storage need not be computed.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        prompt: &[u32],
        generated: usize,
        caches: Caches,
    ) -> Result<RunningRequest, Refusal> {
        let arrived = Instant::now();
        // Joined before the first `await`, so that requests that arrive together count each other, and the queue keeps its
        // limit.
        let waiting = self.join_queue()?;
        // After the refusal, because hashing a long prompt takes longer than everything else here.
        let hashes = self.hashes(prompt);
        let turn = self.admission.lock().await;
        let held = loop {
            // The future is created before the check, so that a release in between is not missed.
            let released = self.released.notified();
            if self.free_places() > 0
                && let Some(held) = self.take(&hashes, prompt, generated, caches.stored.unwrap_or(0))
            {
                break held;
            }
            released.await;
        };
        // A request counts as waiting until it also has its blocks, as in vLLM's `num_requests_waiting`.
        drop(waiting);
        self.running.fetch_add(1, Ordering::Relaxed);
        drop(turn);
        self.metrics.queue_time.observe(arrived.elapsed().as_secs_f64());
        self.metrics.prefix(prompt.len(), held.own_tokens);
        // As in vLLM, other caches are only queried for tokens that are not in the engine's own cache.
        let missing = prompt.len() - held.own_tokens;
        if caches.is_received {
            self.metrics.external(missing, missing);
        } else if caches.stored.is_some() {
            self.metrics.external(missing, held.stored_tokens);
        }
        Ok(RunningRequest {
            engine: self.clone(),
            held,
            prompt_tokens: prompt.len(),
            arrived,
            due: Mutex::new(None),
            is_decoding: AtomicBool::new(false),
        })
    }

    /// The places of the batch that are free.
    fn free_places(&self) -> usize {
        self.args.parameters.max_num_seqs.saturating_sub(self.running.load(Ordering::Relaxed))
    }

    /// Counts a request as waiting, unless the queue is full.
    fn join_queue(&self) -> Result<Count<'_>, Refusal> {
        // A free place is room too: a request that runs at once also passes through here.
        let room = self.args.parameters.max_waiting.saturating_add(self.free_places());
        let (before, waiting) = Count::add(&self.waiting, 1);
        if before >= room { Err(Refusal::queue_full()) } else { Ok(waiting) }
    }

    /// Takes the blocks of a prompt, and publishes how the cache changes. Returns `None` if there is too little space.
    fn take(
        &self,
        hashes: &Arc<[BlockHash]>,
        prompt: &[u32],
        generated: usize,
        stored: usize,
    ) -> Option<RequestBlocks> {
        // The lock stays until the events are published, so that they come in the order of the changes.
        let mut cache = self.cache.lock();
        let Allocation { held, added, evicted } = cache.take(hashes, prompt.len(), generated, stored)?;
        if let Some(events) = &self.events {
            events::publish(events, self.args.parameters.block_size, (hashes, prompt), added, evicted);
        }
        Some(held)
    }

    fn hashes(&self, prompt: &[u32]) -> Arc<[BlockHash]> {
        let bytes: Vec<u8> = prompt.iter().flat_map(|token| token.to_le_bytes()).collect();
        block_hashes(&bytes, self.args.parameters.block_size)
    }

    /// Resolves when a request ends after this call.
    pub(crate) fn released(&self) -> Notified<'_> {
        self.released.notified()
    }

    /// Returns what other caches have of a prompt.
    pub(crate) async fn found(&self, prompt: &[u32], sources: CacheSources<'_>) -> Caches {
        let CacheSources { is_received, storage } = sources;
        let stored = match storage {
            Some(storage) => Some(storage.prefix(self.hashes(prompt)).await),
            None => None,
        };
        Caches { is_received, stored }
    }

    /// Returns the part of a prompt, 0 to 1, that is cached here or in a storage.
    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    pub(crate) fn cached_part(&self, prompt: &[u32], caches: Caches) -> f64 {
        let blocks = caches.stored.unwrap_or(0).max(self.cache.lock().prefix(&self.hashes(prompt)));
        (blocks * self.args.parameters.block_size) as f64 / prompt.len().max(1) as f64
    }

    /// Returns the metrics page in the Prometheus text format.
    pub(crate) fn page(&self) -> String {
        let load = |count: &AtomicUsize| i64::try_from(count.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
        self.metrics.page(load(&self.running), load(&self.waiting), self.cache.lock().usage())
    }

    /// Returns the batch at this moment.
    fn batch(&self) -> Batch {
        let running = self.running.load(Ordering::Relaxed);
        Batch {
            running,
            decoding: self.decoding.load(Ordering::Relaxed),
            max_num_seqs: self.args.parameters.max_num_seqs,
        }
    }
}

// === impl RunningRequest ===

impl RunningRequest {
    /// The prompt tokens that did not have to be computed.
    pub(crate) fn cached_tokens(&self) -> usize {
        self.held.cached_tokens()
    }

    /// Spends the time for computing the prompt, without its cached part. An engine that only encodes computes no prompts.
    pub(crate) async fn prefill(&self) {
        if self.engine.args.media.side() == Some(Side::Producer) {
            return;
        }
        let uncached = self.prompt_tokens - self.held.cached_tokens();
        if self.engine.args.parameters.timing.max_batched_tokens.is_some() {
            self.prefill_in_chunks(uncached).await;
        } else {
            self.spend(self.engine.args.parameters.timing.prefill(uncached)).await;
        }
        self.begin_to_decode();
        self.observe_first_token();
        // Other engines find the blocks only after the time for computing them has passed.
        if let Some(storage) = &self.engine.args.storage {
            storage.keep(self.held.blocks.clone()).await;
        }
    }

    fn observe_first_token(&self) {
        // Like vLLM's, from the arrival, so with the time in the queue.
        self.engine.metrics.first_token.observe(self.arrived.elapsed().as_secs_f64());
    }

    fn begin_to_decode(&self) {
        if !self.is_decoding.swap(true, Ordering::Relaxed) {
            self.engine.decoding.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Computes a prompt in chunks, after the prompts that came before it. Each chunk shares its forward pass with the answers.
    async fn prefill_in_chunks(&self, uncached: usize) {
        let engine = &self.engine;
        // The fixed time passes before the forward pass, and keeps no other prompt waiting.
        self.sleep(engine.args.parameters.timing.first_token).await;
        let ready = self.due.lock().unwrap_or_else(Instant::now);
        // The lock is fair.
        // Held until the prompt is computed. A client that leaves drops it, and `end` is that of the last whole chunk.
        let mut end = engine.chunks.lock().await;
        *self.due.lock() = Some(end.map_or(ready, |end| end.max(ready)));
        let mut left = uncached;
        while left > 0 {
            let batch = engine.batch();
            let chunk = engine.args.parameters.timing.chunk(batch, left);
            let (_, _visible) = Count::add(&engine.chunk_tokens, chunk);
            self.sleep(engine.args.parameters.timing.step(batch, chunk)).await;
            left -= chunk;
            *end = *self.due.lock();
        }
    }

    /// Spends the time for encoding items.
    pub(crate) async fn encode(&self, items: u32) {
        self.spend(self.engine.args.media.time.saturating_mul(items)).await;
    }

    /// Spends the time for receiving the prompt's KV cache from another engine, and for the first token.
    pub(crate) async fn receive(&self) {
        // A transfer does not use the accelerator, but the reference's simulator slows it down as well.
        self.spend(self.engine.args.parameters.timing.transfer(self.prompt_tokens)).await;
        self.begin_to_decode();
        self.forward_pass().await;
        // Dashboards take the time to the first token from the engines that decode.
        self.observe_first_token();
    }

    /// Spends the time between two tokens.
    pub(crate) async fn decode(&self) {
        let before = Instant::now();
        self.forward_pass().await;
        self.engine.metrics.between_tokens.observe(before.elapsed().as_secs_f64());
    }

    /// Spends the time of a forward pass that generates a token.
    async fn forward_pass(&self) {
        let timing = &self.engine.args.parameters.timing;
        if timing.max_batched_tokens.is_some() {
            // The last pass has ended for all its requests at the same moment. A prompt begins its next chunk first, so that
            // this answer shares the pass.
            tokio::task::yield_now().await;
        }
        let chunk = self.engine.chunk_tokens.load(Ordering::Relaxed);
        self.sleep(timing.step(self.engine.batch(), chunk)).await;
    }

    /// Counts the prompt, which was computed or received.
    pub(crate) fn processed(&self) {
        self.engine.metrics.processed(self.prompt_tokens);
    }

    /// Counts generated tokens.
    pub(crate) fn generated(&self, tokens: usize) {
        self.engine.metrics.generated(tokens);
    }

    /// Counts a request that was completed.
    pub(crate) fn finished(&self, reason: &'static str) {
        self.engine.metrics.finished(reason, self.arrived.elapsed());
    }

    async fn spend(&self, time: Duration) {
        let engine = &self.engine;
        self.sleep(time.mul_f64(engine.args.parameters.timing.slowdown(engine.batch()))).await;
    }

    /// Sleeps until this time has passed since the end of the last sleep. An accelerator computes the next token while the
    /// last one is sent, so neither a slow client nor a busy machine nor the rounding of the runtime's timer, which is up to a
    /// millisecond, adds to every token.
    async fn sleep(&self, time: Duration) {
        if !time.is_zero() {
            let due = self.due.lock().unwrap_or_else(Instant::now) + time;
            *self.due.lock() = Some(due);
            tokio::time::sleep_until(due).await;
        }
    }
}

/// A part of a counter. Dropping it, also with an abandoned request, subtracts it again.
struct Count<'a>(&'a AtomicUsize, usize);

impl<'a> Count<'a> {
    /// Also returns what the counter was before.
    fn add(counter: &'a AtomicUsize, count: usize) -> (usize, Self) {
        (counter.fetch_add(count, Ordering::Relaxed), Self(counter, count))
    }
}

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        // Before the wake-up: a request that finds neither a place nor room in the queue waits for the next one, which may never come.
        self.engine.cache.lock().release(&self.held);
        self.engine.running.fetch_sub(1, Ordering::Relaxed);
        if *self.is_decoding.get_mut() {
            self.engine.decoding.fetch_sub(1, Ordering::Relaxed);
        }
        // The request that starts next waits for this, and those that the full queue has refused.
        self.engine.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
