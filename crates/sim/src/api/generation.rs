//! One request's answers, token by token, at the engine's pace.

use std::{collections::VecDeque, sync::Arc};

use futures::{Stream, StreamExt, stream};
use xxhash_rust::xxh64::xxh64;

use super::{
    error::ApiError,
    request::{Part, Sampling, Tokenized},
};
use crate::{
    args::Mode,
    engine::{Engine, Running},
    text,
};

/// What happens while answers are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// An answer grew by one token.
    Piece {
        /// Which answer.
        choice: usize,
        /// Its text.
        text: String,
    },
    /// An answer is complete.
    Finished {
        /// Which answer.
        choice: usize,
        /// `stop`, `length` or `remote_decode`.
        reason: &'static str,
    },
}

/// Token counts of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    prompt: usize,
    completion: usize,
    cached: usize,
}

// === impl Usage ===

impl Usage {
    pub(crate) fn json(self) -> serde_json::Value {
        serde_json::json!({
            "prompt_tokens": self.prompt,
            "total_tokens": self.prompt + self.completion,
            "completion_tokens": self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
        })
    }

    pub(crate) fn add_completion(&mut self, tokens: usize) {
        self.completion += tokens;
    }
}

struct Choice {
    pieces: VecDeque<String>,
    generated: usize,
    reason: &'static str,
}

/// Answers in the making; dropping it abandons them.
pub(crate) struct Generation {
    running: Vec<Running>,
    choices: Vec<Choice>,
    ready: VecDeque<Event>,
    started: bool,
    /// Whether another engine has computed the prompt.
    is_prefilled: bool,
}

/// Checks a request against the model and waits until the engine takes it.
pub(crate) async fn start(
    engine: &Arc<Engine>,
    sampling: &Sampling,
    prompts: &[Tokenized],
    echo: &str,
    default_limit: Option<usize>,
) -> Result<(Generation, Usage), ApiError> {
    let args = &engine.args;
    let copies = sampling.choices()?;
    let mut choices = Vec::with_capacity(copies * prompts.len());
    let mut reserved: Vec<usize> = Vec::with_capacity(prompts.len());
    for prompt in prompts {
        let length = prompt.tokens.len();
        let room = args.max_model_len.saturating_sub(length);
        let asked = sampling.limit()?.or(default_limit);
        if room == 0 || sampling.limit()?.is_some_and(|limit| limit > room) {
            return Err(ApiError::bad_request(format!(
                "This model's maximum context length is {} tokens. However, you requested {} tokens ({length} in the \
                 prompt, {} in the completion). Please reduce the length of the prompt or completion.",
                args.max_model_len,
                length + asked.unwrap_or(1),
                asked.unwrap_or(1),
            )));
        }
        let limit = asked.unwrap_or(room).min(room);
        let limit = if sampling.part() == Part::Prefill { 1 } else { limit };
        for copy in 0..copies {
            choices.push(answer(engine, sampling, prompt, echo, limit, copy));
        }
        reserved.push(choices[choices.len() - copies..].iter().map(|choice| choice.pieces.len()).sum());
    }
    let mut running = Vec::with_capacity(prompts.len());
    for (prompt, generated) in prompts.iter().zip(reserved) {
        let memory = (prompt.tokens.len() + generated).div_ceil(args.block_size);
        if memory > args.cache_blocks {
            return Err(ApiError::bad_request(format!(
                "the request needs {memory} blocks of KV cache, the engine has {}.",
                args.cache_blocks
            )));
        }
        running.push(engine.admit(&prompt.tokens, generated).await?);
    }
    let usage = Usage {
        prompt: prompts.iter().map(|prompt| prompt.tokens.len()).sum(),
        cached: running.iter().map(Running::cached_tokens).sum(),
        completion: 0,
    };
    let is_prefilled = sampling.part() == Part::Decode;
    Ok((Generation { running, choices, ready: VecDeque::new(), started: false, is_prefilled }, usage))
}

fn answer(
    engine: &Engine,
    sampling: &Sampling,
    prompt: &Tokenized,
    echo: &str,
    limit: usize,
    copy: usize,
) -> Choice {
    let mut pieces: Vec<String> = match engine.args.mode {
        Mode::Echo => text::pieces(echo).map(Into::into).collect(),
        Mode::Random => {
            let chosen = sampling.seed.map(i64::cast_unsigned).or(engine.args.seed);
            let bytes: Vec<u8> = prompt.tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
            let seed = chosen.map_or_else(rand::random, |seed| xxh64(&bytes, seed));
            text::filler(seed.wrapping_add(copy as u64), sampling.least(limit))
        }
    };
    let mut reason = "stop";
    if pieces.len() > limit || sampling.least(limit) == Some(limit) {
        pieces.truncate(limit);
        reason = "length";
    }
    let full = pieces.concat();
    let cut =
        sampling.stops().iter().filter(|stop| !stop.is_empty()).filter_map(|stop| full.find(stop)).min();
    if let Some(cut) = cut {
        pieces = text::pieces(&full[..cut]).map(Into::into).collect();
        reason = "stop";
    }
    if sampling.part() == Part::Prefill {
        reason = "remote_decode";
    }
    Choice { generated: pieces.len(), pieces: pieces.into(), reason }
}

// === impl Generation ===

impl Generation {
    /// The next event, when its time has come; `None` after the last.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        if self.ready.is_empty() {
            self.step().await;
        }
        self.ready.pop_front()
    }

    /// The same as a stream.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Event> + Send {
        stream::unfold(self, |mut generation| async {
            generation.next().await.map(|event| (event, generation))
        })
        .fuse()
    }

    async fn step(&mut self) {
        let first = !std::mem::replace(&mut self.started, true);
        if !first && self.running.is_empty() {
            return;
        }
        // The prompts of one request are in the same batch: their times pass together.
        futures::future::join_all(self.running.iter().map(|running| async {
            if first && !self.is_prefilled {
                running.prefill().await;
            } else {
                running.decode().await;
            }
        }))
        .await;
        for (index, choice) in self.choices.iter_mut().enumerate() {
            if choice.reason.is_empty() {
                continue;
            }
            if let Some(text) = choice.pieces.pop_front() {
                self.ready.push_back(Event::Piece { choice: index, text });
            }
            if choice.pieces.is_empty() {
                self.ready.push_back(Event::Finished { choice: index, reason: choice.reason });
                choice.reason = "";
            }
        }
        if self.choices.iter().all(|choice| choice.reason.is_empty()) {
            let copies = self.choices.len() / self.running.len().max(1);
            let last = self.ready.iter().rev().find_map(|event| match event {
                Event::Finished { reason, .. } => Some(*reason),
                Event::Piece { .. } => None,
            });
            for (running, choices) in self.running.iter().zip(self.choices.chunks(copies.max(1))) {
                running.finished(choices.iter().map(|choice| choice.generated).sum(), last.unwrap_or("stop"));
            }
            self.running.clear();
        }
    }
}
