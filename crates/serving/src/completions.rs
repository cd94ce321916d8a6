//! `POST /v1/completions`.

use std::sync::Arc;

use axum::{Json, extract::State, http::HeaderMap, response::Response};
use serde_json::{Value, json};

use crate::{
    Event, Model, Refusal, Token,
    answers::{Usage, collect, finish, tokens},
    body::Body,
    fields::Fields,
    job, logprobs,
    reply::{Part, Reply, with_headers},
    sse,
};

pub(crate) async fn create(
    State(model): State<Arc<dyn Model>>,
    headers: HeaderMap,
    Body(mut fields): Body<Fields>,
) -> Result<Response, Refusal> {
    let asked = job::completion(&model, &fields)?;
    let job = asked.job;
    let copies = job.copies;
    let count = job.prompts.len() * copies;
    let with_logprobs = job.sampling.logprobs.is_some();
    // The text before each answer.
    let prefixes: Vec<String> = (0..count)
        .map(|choice| match fields.echo {
            Some(true) => job.prompts[choice / copies].text.clone(),
            _ => String::new(),
        })
        .collect();
    let request_id = fields.request_id.take();
    drop(fields);
    let prompt = job.prompts.iter().map(|prompt| prompt.tokens.len()).sum();
    let reply = Reply::new("cmpl", &headers, request_id, job.model.clone());
    let started = model.start(job).await?;
    let usage = Usage { prompt, completion: 0, cached: started.cached_tokens };
    if asked.output.stream {
        let opening: Vec<Part> = prefixes
            .iter()
            .enumerate()
            .filter(|(_, prefix)| !prefix.is_empty())
            .map(|(choice, prefix)| part(choice, prefix, &Value::Null, 0))
            .collect();
        let mut writer = Writer { with_logprobs, offsets: vec![0; count] };
        let part = move |event| writer.part(event);
        let chunks = reply.stream("text_completion", opening, started.events, part, usage, asked.output);
        return Ok(with_headers(sse::data(chunks), started.headers));
    }
    let (answers, usage) = collect(started.events, usage, count).await;
    let choices: Vec<Value> = answers
        .into_iter()
        .enumerate()
        .map(|(index, answer)| {
            let logprobs = if with_logprobs { logprobs::columns(&answer.tokens, 0) } else { Value::Null };
            let mut choice = part(index, &(prefixes[index].clone() + &answer.text), &logprobs, 0).choice;
            finish(&mut choice, answer.reason, answer.stop.as_ref());
            choice["prompt_logprobs"] = Value::Null;
            choice["routed_experts"] = Value::Null;
            choice
        })
        .collect();
    let params = [started.kv_transfer_params, None];
    let body = reply.whole("text_completion", &choices, usage, params);
    Ok(with_headers(Json(body), started.headers))
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
}

impl Writer {
    fn part(&mut self, event: Event) -> Part {
        let count = tokens(&event);
        match event {
            Event::Text { choice, token } => {
                let logprobs = self.logprobs(choice, &token);
                part(choice, &token.text, &logprobs, count)
            }
            // Completions have no tools.
            Event::Call { choice, .. } | Event::Arguments { choice, .. } => {
                part(choice, "", &Value::Null, count)
            }
            Event::Finished { choice, reason, stop } => {
                let mut part = part(choice, "", &Value::Null, count);
                finish(&mut part.choice, reason, stop.as_ref());
                part
            }
        }
    }

    fn logprobs(&mut self, choice: usize, token: &Token) -> Value {
        let offset = self.offsets[choice];
        self.offsets[choice] += token.text.chars().count();
        if self.with_logprobs { logprobs::columns(std::slice::from_ref(token), offset) } else { Value::Null }
    }
}
