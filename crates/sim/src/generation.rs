//! The answers to one request, generated token by token at the engine's pace.

use std::{collections::VecDeque, sync::Arc};

use futures::{FutureExt, Stream, StreamExt, stream};
use longboat_serving::{Event, Job, Refusal, Stop};

use crate::{
    caches::{CacheSources, Caches},
    engine::{Engine, RunningRequest, encoder::EncoderOutcome},
    structured_output::{self, Answer},
};

/// The finish reason of an answer if too little of the prompt is cached.
const CACHE_MISS_REASON: &str = "cache_threshold";

struct Choice {
    index: usize,
    answer: Answer,
    has_called: bool,
}

/// An answer to a prompt that the engine has not admitted. As in vLLM, each answer is a request of its own.
struct WaitingChoice {
    prompt: Arc<[u32]>,
    caches: Caches,
    choice: Choice,
}

/// The answers that are being generated. Dropping this cancels them.
pub(crate) struct Generation {
    engine: Arc<Engine>,
    waiting: VecDeque<WaitingChoice>,
    running: Vec<(RunningRequest, Choice)>,
    ready: VecDeque<Event>,
    /// Whether the prompts of the running answers are computed.
    started: bool,
    /// Whether another engine has computed the prompt and its KV cache was received.
    is_prefilled: bool,
    encoded: EncoderOutcome,
    cached_tokens: usize,
}

/// Generates the answers, and waits until the engine admits a prompt.
pub(crate) async fn start(
    engine: &Arc<Engine>,
    job: &Job,
    sources: CacheSources<'_>,
) -> Result<Generation, Refusal> {
    let args = &engine.args;
    let mut generation = Generation {
        engine: Arc::clone(engine),
        waiting: VecDeque::with_capacity(job.prompts.len() * job.copies),
        running: Vec::new(),
        ready: VecDeque::new(),
        started: false,
        is_prefilled: sources.is_received,
        encoded: EncoderOutcome::default(),
        cached_tokens: 0,
    };
    let mut found = Vec::with_capacity(job.prompts.len());
    for prompt in &job.prompts {
        found.push(engine.found(&prompt.tokens, sources).await);
    }
    // Before the queue: such a request takes no place.
    let threshold = job.handover.cache_hit_threshold.or(args.cache_hit_threshold);
    if let Some(threshold) = threshold.filter(|_| !sources.is_received) {
        let mut all = job.prompts.iter().zip(&found);
        if all.any(|(prompt, caches)| engine.cached_part(&prompt.tokens, *caches) < threshold) {
            // Every answer ends at once.
            let answers = 0..job.prompts.len() * job.copies;
            let ended =
                answers.map(|choice| Event::Finished { choice, reason: CACHE_MISS_REASON, stop: None });
            generation.ready.extend(ended);
            return Ok(generation);
        }
    }
    for (prompt, caches) in job.prompts.iter().zip(found) {
        let tokens: Arc<[u32]> = prompt.tokens.as_slice().into();
        for copy in 0..job.copies {
            let answer = structured_output::answer(args, job, prompt, copy)?;
            engine.fits(tokens.len() + answer.tokens.len())?;
            let choice = Choice { index: generation.waiting.len(), answer, has_called: false };
            let prompt = Arc::clone(&tokens);
            generation.waiting.push_back(WaitingChoice { prompt, caches, choice });
        }
    }
    generation.admit().await?;
    // If the prompt's KV cache was received, no embeddings are needed.
    if let Some(encoder) = engine.encoder.as_ref().filter(|_| !sources.is_received) {
        generation.encoded = encoder.embed(args, job).await;
    }
    // Further answers to a prompt find it in the cache because of the first one.
    let first = generation.running.iter().filter(|(_, choice)| choice.index % job.copies == 0);
    generation.cached_tokens = first.map(|(running, _)| running.cached_tokens()).sum();
    Ok(generation)
}

// === impl Generation ===

impl Generation {
    /// Waits until the engine admits the next answer, and adds the further ones that have room beside it at once. Waiting
    /// answers hold no places: otherwise they could deadlock.
    async fn admit(&mut self) -> Result<(), Refusal> {
        while let Some(WaitingChoice { prompt, caches, choice }) = self.waiting.front() {
            let admitted = self.engine.admit(prompt, choice.answer.tokens.len(), *caches);
            let running = if self.running.is_empty() {
                admitted.await?
            } else if let Some(Ok(running)) = admitted.now_or_never() {
                running
            } else {
                break;
            };
            let choice = self.waiting.pop_front().map(|waiting| waiting.choice);
            self.running.extend(choice.map(|choice| (running, choice)));
        }
        Ok(())
    }

    /// The prompt tokens that were found in the prefix cache, of the prompts that did not have to wait for others of the request.
    pub(crate) fn cached_tokens(&self) -> usize {
        self.cached_tokens
    }

    /// The engine that had the embeddings of items, if there was one.
    pub(crate) fn embeddings_source(&self) -> Option<&str> {
        self.encoded.source.as_deref()
    }

    /// Returns the events, each at its time.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Event> + Send {
        stream::unfold(self, |mut generation| async {
            if generation.ready.is_empty() {
                generation.step().await;
            }
            generation.ready.pop_front().map(|event| (event, generation))
        })
        .fuse()
    }

    async fn step(&mut self) {
        while self.running.is_empty() && !self.waiting.is_empty() {
            // Created first, so that a release between the refusal and the wait is not missed.
            let engine = Arc::clone(&self.engine);
            let released = engine.released();
            if self.admit().await.is_err() {
                // The queue is full.
                released.await;
            }
        }
        if self.running.is_empty() {
            return;
        }
        let first = !std::mem::replace(&mut self.started, true);
        let is_prefilled = self.is_prefilled;
        // Answers that had to wait for others of the request find the embeddings of its items in the cache.
        let computed = std::mem::take(&mut self.encoded.computed);
        // The prompts of a request are in the same batch, so their times run in parallel.
        futures::future::join_all(self.running.iter().map(|(running, _)| async move {
            match (first, is_prefilled) {
                (true, false) => {
                    running.encode(computed).await;
                    running.prefill().await;
                }
                (true, true) => running.receive().await,
                (false, _) => running.decode().await,
            }
        }))
        .await;
        let ready = &mut self.ready;
        self.running.retain_mut(|(running, choice)| {
            if first {
                running.processed();
            }
            running.generated(usize::from(!choice.answer.tokens.is_empty()));
            choice.step(ready);
            let is_finished = choice.answer.tokens.is_empty();
            if is_finished {
                running.finished(match choice.answer.reason {
                    // As in vLLM, the metrics have no reasons of their own for calls and for prompts that another engine continues.
                    "tool_calls" => "stop",
                    "remote_decode" => "length",
                    reason => reason,
                });
            }
            !is_finished
        });
        // The next answers join together when none is left, so all that run have the same phase.
        self.started = !self.running.is_empty();
    }
}

impl Choice {
    /// Generates one token.
    fn step(&mut self, ready: &mut VecDeque<Event>) {
        if let Some(name) = self.answer.call.as_ref().filter(|_| !self.has_called) {
            ready.push_back(Event::Call { choice: self.index, index: 0, name: name.clone() });
            self.has_called = true;
        }
        if let Some(token) = self.answer.tokens.pop_front() {
            ready.push_back(if self.has_called {
                Event::Arguments { choice: self.index, index: 0, token }
            } else {
                Event::Text { choice: self.index, token }
            });
        }
        if self.answer.tokens.is_empty() {
            let (reason, stop) = (self.answer.reason, self.answer.stop.take().map(Stop::Text));
            ready.push_back(Event::Finished { choice: self.index, reason, stop });
        }
    }
}

#[cfg(test)]
mod tests {
    use longboat_serving::{Model, job_of};
    use tokio::time::Instant;

    use super::*;
    use crate::{Args, Simulator};

    #[tokio::test(start_paused = true)]
    async fn items_are_encoded_once_for_answers_that_wait_for_each_other() {
        let flags = ["m", "--modalities", "image", "--encode-time-per-item", "1s", "--max-num-seqs", "1"];
        let model: Arc<dyn Model> = Arc::new(Simulator::new(Args::simulator(&flags).unwrap()));
        let body = br#"{"n": 2, "max_tokens": 1, "messages": [{"role": "user", "content":
            [{"type": "image_url", "image_url": {"url": "http://a/1.png"}}]}]}"#;
        let job = job_of(&model, "/v1/chat/completions", body).unwrap();
        let before = Instant::now();
        let events: Vec<Event> = model.start(job).await.unwrap().events.collect().await;
        assert_eq!((events.len(), before.elapsed().as_secs()), (4, 1));
    }
}
