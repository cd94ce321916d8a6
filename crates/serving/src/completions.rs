//! `POST /v1/completions`.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::{
    Event, Model, Prompt, Refusal, Token,
    answers::{Usage, collect, finish, tokens},
    body::Body,
    fields::Fields,
    job, logprobs,
    reply::{Part, Reply},
    sse,
};

pub(crate) async fn create(
    State(model): State<Arc<dyn Model>>,
    headers: HeaderMap,
    Body(mut fields): Body<Fields>,
) -> Result<Response, Refusal> {
    let request = job::completion(&model, &fields)?;
    let job = request.job;
    let copies = job.copies;
    let count = job.prompts.len() * copies;
    let with_logprobs = job.sampling.logprobs.is_some();
    let echoes = (0..count).map(|choice| match fields.echo {
        Some(true) => Echo::new(model.as_ref(), &job.prompts[choice / copies]).map(Some),
        _ => Ok(None),
    });
    let echoes: Vec<Option<Echo>> = echoes.collect::<Result<_, Refusal>>()?;
    let request_id = fields.request_id.take();
    drop(fields);
    let prompt = job.prompts.iter().map(|prompt| prompt.tokens.len()).sum();
    let reply = Reply::new("cmpl", &headers, request_id, job.model.clone());
    let started = model.start(job).await?;
    let usage = Usage { prompt, completion: 0, cached: started.cached_tokens };
    if request.output.stream {
        let mut writer = Writer { with_logprobs, offsets: vec![0; count], echoes };
        let part = move |event| writer.part(event);
        let chunks = reply.stream("text_completion", Vec::new(), started.events, part, usage, request.output);
        return Ok((started.headers, sse::data(chunks)).into_response());
    }
    let (answers, usage) = collect(started.events, usage, count).await;
    let choices: Vec<Value> = answers
        .into_iter()
        .enumerate()
        .map(|(index, answer)| {
            let logprobs = if with_logprobs { logprobs::columns(&answer.tokens, 0) } else { Value::Null };
            let prompt = echoes[index].as_ref().map_or("", |echo| &echo.text);
            // A whole answer has the fields of a chunk, and these.
            let mut choice = part(index, &(prompt.to_owned() + &answer.text), &logprobs, 0).choice;
            finish(&mut choice, answer.reason, answer.stop.as_ref());
            choice["prompt_logprobs"] = Value::Null;
            choice["routed_experts"] = Value::Null;
            choice
        })
        .collect();
    let params = [started.kv_transfer_params, None];
    let body = reply.whole("text_completion", &choices, usage, params);
    Ok((started.headers, Json(body)).into_response())
}

/// A prompt that comes before its answer.
struct Echo {
    text: String,
    tokens: Vec<u32>,
}

impl Echo {
    fn new(model: &dyn Model, prompt: &Prompt) -> Result<Self, Refusal> {
        let tokens = prompt.tokens.clone();
        if !prompt.text.is_empty() {
            return Ok(Self { text: prompt.text.clone(), tokens });
        }
        let message = "echo of a prompt in tokens is not supported by this server: send the prompt as text.";
        let text = model.text(&tokens).ok_or_else(|| Refusal::field("echo", message))?;
        Ok(Self { text, tokens })
    }
}

fn part(choice: usize, text: &str, logprobs: &Value, tokens: usize) -> Part {
    let choice = json!({
        "index": choice, "text": text, "logprobs": logprobs, "finish_reason": null, "stop_reason": null,
        "token_ids": null, "prompt_token_ids": null,
    });
    Part { choice, tokens, fields: &[] }
}

/// Converts events to choices of chunks.
struct Writer {
    with_logprobs: bool,
    /// The length of each answer in characters.
    offsets: Vec<usize>,
    /// Prompts that are sent with the first part of their answers.
    echoes: Vec<Option<Echo>>,
}

impl Writer {
    fn part(&mut self, event: Event) -> Part {
        let count = tokens(&event);
        let (choice, mut part) = match event {
            Event::Text { choice, token } => {
                let logprobs = self.logprobs(choice, &token);
                (choice, part(choice, &token.text, &logprobs, count))
            }
            // Completions have no tools.
            Event::Call { choice, .. } | Event::Arguments { choice, .. } => {
                (choice, part(choice, "", &Value::Null, count))
            }
            Event::Finished { choice, reason, stop } => {
                let mut part = part(choice, "", &Value::Null, count);
                finish(&mut part.choice, reason, stop.as_ref());
                (choice, part)
            }
        };
        if let Some(Echo { text, tokens }) = self.echoes[choice].take() {
            part.choice["text"] = (text + part.choice["text"].as_str().unwrap_or_default()).into();
            part.choice["prompt_token_ids"] = json!(tokens);
        }
        part
    }

    fn logprobs(&mut self, choice: usize, token: &Token) -> Value {
        let offset = self.offsets[choice];
        self.offsets[choice] += token.text.chars().count();
        if self.with_logprobs { logprobs::columns(std::slice::from_ref(token), offset) } else { Value::Null }
    }
}
