//! `POST /v1/completions`, and the parts of a reply that it shares with chat.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use axum::{extract::State, http::HeaderMap, response::Response};
use futures::{Stream, StreamExt, future, stream};
use serde_json::{Value, json};

use super::{
    error::ApiError,
    generation::{self, Event, Generation, Usage},
    request::{Completion, Sampling},
    sse, transfer,
};
use crate::engine::Engine;

/// vLLM's default for completions, as OpenAI's.
const DEFAULT_LIMIT: usize = 16;

pub(crate) async fn create(
    State(engine): State<Arc<Engine>>,
    headers: HeaderMap,
    request: Completion,
) -> Result<Response, ApiError> {
    let model = known_model(&engine, &request.sampling)?;
    let prompts = request.prompts()?;
    let echo = prompts[0].text.clone();
    let (generation, usage) =
        generation::start(&engine, &request.sampling, &prompts, &echo, Some(DEFAULT_LIMIT)).await?;
    let reply = Reply::new("cmpl", &headers, model);
    let count = prompts.len() * request.sampling.choices()?;
    let copies = request.sampling.choices()?;
    let prefix = |choice: usize| {
        if request.echo == Some(true) { prompts[choice / copies].text.as_str() } else { "" }
    };
    if request.sampling.stream == Some(true) {
        let opening: Vec<Value> = (0..count)
            .filter(|choice| !prefix(*choice).is_empty())
            .map(|choice| part(choice, prefix(choice), None))
            .collect();
        let include_usage = request.sampling.include_usage();
        let chunks = stream::iter(opening).chain(generation.into_stream().map(|event| match event {
            Event::Piece { choice, text } => part(choice, &text, None),
            Event::Finished { choice, reason } => part(choice, "", Some(reason)),
        }));
        let stream = reply.stream("text_completion", chunks, usage, include_usage);
        return Ok(transfer::marked(&request.sampling, sse::response(stream)));
    }
    let (answers, usage) = collect(generation, usage, count).await;
    let choices: Vec<Value> = answers
        .into_iter()
        .enumerate()
        .map(|(index, answer)| part(index, &(prefix(index).to_owned() + &answer.text), Some(answer.reason)))
        .collect();
    let body = reply.whole("text_completion", &choices, usage);
    Ok(transfer::told(&engine, &request.sampling, body))
}

fn part(choice: usize, text: &str, reason: Option<&str>) -> Value {
    json!({"index": choice, "text": text, "logprobs": null, "finish_reason": reason})
}

/// The model to answer as: the one asked for if it is served, the first one where none is named, as in vLLM.
pub(crate) fn known_model(engine: &Engine, sampling: &Sampling) -> Result<String, ApiError> {
    let args = &engine.args;
    match &sampling.model {
        None => Ok(args.served_names[0].clone()),
        Some(name) if args.served_names.contains(name) || args.lora_names.contains(name) => Ok(name.clone()),
        Some(name) => Err(ApiError::unknown_model(name)),
    }
}

/// A complete answer.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) reason: &'static str,
}

/// Waits for all answers.
pub(crate) async fn collect(
    mut generation: Generation,
    mut usage: Usage,
    count: usize,
) -> (Vec<Answer>, Usage) {
    let mut answers: Vec<Answer> = std::iter::repeat_with(Answer::default).take(count).collect();
    while let Some(event) = generation.next().await {
        match event {
            Event::Piece { choice, text } => {
                answers[choice].text += &text;
                usage.add_completion(1);
            }
            Event::Finished { choice, reason } => answers[choice].reason = reason,
        }
    }
    (answers, usage)
}

/// The fields that every object of one reply repeats.
pub(crate) struct Reply {
    id: String,
    created: u64,
    model: String,
}

// === impl Reply ===

impl Reply {
    /// Names the reply after the client's `x-request-id` where it sent one, as vLLM does.
    pub(crate) fn new(prefix: &str, headers: &HeaderMap, model: String) -> Self {
        let given = headers.get("x-request-id").and_then(|id| id.to_str().ok()).map(Into::into);
        let id = given.unwrap_or_else(|| uuid::Uuid::new_v4().simple().to_string());
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self { id: format!("{prefix}-{id}"), created, model }
    }

    pub(crate) fn whole(self, object: &str, choices: &[Value], usage: Usage) -> Value {
        let mut body = self.object(object, choices);
        body["usage"] = usage.json();
        body
    }

    /// Wraps each choice into a chunk; counts tokens on the way and ends with them where the client asked for usage.
    pub(crate) fn stream(
        self,
        object: &'static str,
        choices: impl Stream<Item = Value> + Send,
        usage: Usage,
        include_usage: bool,
    ) -> impl Stream<Item = Value> + Send {
        // `None` marks the end, where the usage chunk goes.
        choices.map(Some).chain(stream::once(future::ready(None))).scan(usage, move |usage, choice| {
            let chunk = match choice {
                Some(choice) => {
                    let text = choice
                        .pointer("/delta/content")
                        .or_else(|| choice.get("text"))
                        .and_then(Value::as_str);
                    usage.add_completion(usize::from(text.is_some_and(|text| !text.is_empty())));
                    let mut chunk = self.object(object, &[choice]);
                    if include_usage {
                        chunk["usage"] = Value::Null;
                    }
                    Some(chunk)
                }
                None if include_usage => {
                    let mut chunk = self.object(object, &[]);
                    chunk["usage"] = usage.json();
                    Some(chunk)
                }
                None => None,
            };
            future::ready(chunk)
        })
    }

    fn object(&self, object: &str, choices: &[Value]) -> Value {
        json!({"id": self.id, "object": object, "created": self.created, "model": self.model, "choices": choices})
    }
}
