//! The answers to one request, generated token by token at the engine's pace.

use std::{collections::VecDeque, sync::Arc};

use futures::{Stream, StreamExt, stream};
use longboat_serving::{Event, Job, Refusal, Stop};

use crate::{
    caches::Caches,
    engine::{Engine, RunningRequest, encoder::EncoderOutcome},
    structured_output::{self, Answer},
};

/// The finish reason of an answer if too little of the prompt is cached.
const CACHE_MISS_REASON: &str = "cache_threshold";

struct Choice {
    answer: Answer,
    has_called: bool,
    is_finished: bool,
}

/// The answers that are being generated. Dropping this cancels them.
#[derive(Default)]
pub(crate) struct Generation {
    running: Vec<RunningRequest>,
    choices: Vec<Choice>,
    ready: VecDeque<Event>,
    started: bool,
    /// Whether another engine has computed the prompt and its KV cache was received.
    is_prefilled: bool,
    encoded: EncoderOutcome,
    cached_tokens: usize,
}

/// Generates the answers, and waits until the engine admits the prompts.
pub(crate) async fn start(
    engine: &Arc<Engine>,
    job: &Job,
    caches: Caches<'_>,
) -> Result<Generation, Refusal> {
    let args = &engine.args;
    let Caches { has_come: is_prefilled, storage } = caches;
    if let Some(threshold) = job.handover.cache_hit_threshold.or(args.cache_hit_threshold) {
        for prompt in &job.prompts {
            if engine.cached_part(&prompt.tokens, storage).await < threshold && !is_prefilled {
                return Ok(Generation::refused(job));
            }
        }
    }
    let mut choices = Vec::with_capacity(job.copies * job.prompts.len());
    let mut running = Vec::with_capacity(job.prompts.len());
    for prompt in &job.prompts {
        for copy in 0..job.copies {
            let answer = structured_output::answer(args, job, prompt, copy)?;
            choices.push(Choice { answer, has_called: false, is_finished: false });
        }
    }
    for (prompt, choices) in job.prompts.iter().zip(choices.chunks(job.copies)) {
        let generated: usize = choices.iter().map(|choice| choice.answer.tokens.len()).sum();
        engine.fits(prompt.tokens.len() + generated)?;
        running.push(engine.admit(&prompt.tokens, generated, caches).await?);
    }
    // If the prompt's KV cache was received, no embeddings are needed.
    let encoded = match &engine.encoder {
        Some(encoder) if !is_prefilled => encoder.embed(args, job).await,
        _ => EncoderOutcome::default(),
    };
    Ok(Generation {
        encoded,
        cached_tokens: running.iter().map(RunningRequest::cached_tokens).sum(),
        running,
        choices,
        is_prefilled,
        ..Generation::default()
    })
}

// === impl Generation ===

impl Generation {
    /// A generation in which every answer ends at once, because too little of the prompt is cached.
    fn refused(job: &Job) -> Self {
        let answers = job.prompts.len() * job.copies;
        let ready =
            (0..answers).map(|choice| Event::Finished { choice, reason: CACHE_MISS_REASON, stop: None });
        Self { ready: ready.collect(), started: true, ..Self::default() }
    }

    /// The prompt tokens that were found in the prefix cache.
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
        let first = !std::mem::replace(&mut self.started, true);
        if !first && self.running.is_empty() {
            return;
        }
        let is_prefilled = self.is_prefilled;
        // The prompts of a request are in the same batch, so their times run in parallel.
        let computed = self.encoded.computed;
        futures::future::join_all(self.running.iter().map(|running| async move {
            if first && !is_prefilled {
                running.encode(computed).await;
                running.prefill().await;
                return;
            }
            if first {
                running.receive().await;
            }
            running.decode().await;
        }))
        .await;
        let mut generated = 0;
        for (index, choice) in self.choices.iter_mut().enumerate() {
            let before = choice.answer.tokens.len();
            choice.step(index, &mut self.ready);
            generated += before - choice.answer.tokens.len();
        }
        if first {
            self.running.iter().for_each(RunningRequest::processed);
        }
        if let Some(running) = self.running.first() {
            running.generated(generated);
        }
        if self.choices.iter().all(|choice| choice.is_finished) {
            let copies = self.choices.len() / self.running.len().max(1);
            for (running, choices) in self.running.iter().zip(self.choices.chunks(copies.max(1))) {
                let reason = choices.last().map_or("stop", |choice| choice.answer.reason);
                // The metrics have no reason `tool_calls`. An answer that ends with a call counts as `stop`.
                let reason = if reason == "tool_calls" { "stop" } else { reason };
                running.finished(reason);
            }
            self.running.clear();
        }
    }
}

impl Choice {
    /// Generates one token.
    fn step(&mut self, index: usize, ready: &mut VecDeque<Event>) {
        if self.is_finished {
            return;
        }
        if let Some(name) = self.answer.call.as_ref().filter(|_| !self.has_called) {
            ready.push_back(Event::Call { choice: index, index: 0, name: name.clone() });
            self.has_called = true;
        }
        if let Some(token) = self.answer.tokens.pop_front() {
            ready.push_back(if self.has_called {
                Event::Arguments { choice: index, index: 0, token }
            } else {
                Event::Text { choice: index, token }
            });
        }
        if self.answer.tokens.is_empty() {
            self.is_finished = true;
            let (reason, stop) = (self.answer.reason, self.answer.stop.take().map(Stop::Text));
            ready.push_back(Event::Finished { choice: index, reason, stop });
        }
    }
}
