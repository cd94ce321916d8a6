//! `POST /v1/chat/completions`.

use std::{collections::HashMap, sync::Arc};

use axum::{
    Json,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use futures::{StreamExt, future};
use serde_json::{Value, json};

use crate::{
    Event, Model, Refusal, Token,
    answers::{Answer, Usage, collect, finish, tokens},
    body::Body,
    fields::Fields,
    job, logprobs,
    reply::{Part, Reply},
    sse,
    tools::call_id,
};

pub(crate) async fn create(
    State(model): State<Arc<dyn Model>>,
    headers: HeaderMap,
    Body(mut fields): Body<Fields>,
) -> Result<Response, Refusal> {
    let request = job::chat(&model, &fields)?;
    let request_id = fields.request_id.take();
    // The images of a request may have megabytes, and a stream may take minutes.
    drop(fields);
    let (copies, prompt) = (request.job.copies, request.job.prompts.iter().map(|p| p.tokens.len()).sum());
    let with_logprobs = request.job.sampling.logprobs.is_some();
    let reply = Reply::new("chatcmpl", &headers, request_id, request.job.model.clone());
    let started = model.start(request.job).await?;
    let usage = Usage { prompt, completion: 0, cached: started.cached_tokens };
    if request.output.stream {
        let opening: Vec<Part> = (0..copies).map(opening).collect();
        let mut writer = Writer { with_logprobs, ids: HashMap::new() };
        let part = move |event| writer.part(event);
        let chunks =
            reply.stream("chat.completion.chunk", opening, started.events, part, usage, request.output);
        let chunks = chunks.filter(|chunk| future::ready(!is_empty(chunk)));
        return Ok((started.headers, sse::data(chunks)).into_response());
    }
    let (answers, usage) = collect(started.events, usage, copies).await;
    let choices: Vec<Value> =
        answers.into_iter().enumerate().map(|(index, answer)| choice(index, answer, with_logprobs)).collect();
    let params = [started.kv_transfer_params, started.ec_transfer_params];
    let mut body = reply.whole("chat.completion", &choices, usage, params);
    for field in ["prompt_logprobs", "prompt_token_ids", "prompt_text"] {
        body[field] = Value::Null;
    }
    Ok((started.headers, Json(body)).into_response())
}

fn choice(index: usize, answer: Answer, with_logprobs: bool) -> Value {
    let mut message = json!({
        "role": "assistant", "content": answer.text, "refusal": null, "annotations": null, "audio": null,
        "function_call": null, "reasoning": null,
    });
    if !answer.calls.is_empty() {
        if answer.text.is_empty() {
            message["content"] = Value::Null;
        }
        let calls = answer.calls.into_iter().map(|call| {
            let function = json!({"name": call.name, "arguments": call.arguments});
            json!({"id": call_id(), "type": "function", "function": function})
        });
        message["tool_calls"] = calls.collect();
    }
    let logprobs = if with_logprobs { logprobs::chat(&answer.tokens) } else { Value::Null };
    json!({
        "index": index, "message": message, "logprobs": logprobs, "finish_reason": answer.reason,
        "stop_reason": answer.stop, "token_ids": null, "routed_experts": null,
    })
}

/// Converts events to choices of chunks.
struct Writer {
    with_logprobs: bool,
    /// The ids of tool calls, by answer and number.
    ids: HashMap<(usize, usize), String>,
}

impl Writer {
    fn part(&mut self, event: Event) -> Part {
        let count = tokens(&event);
        let called = |index: usize, mut call: Value| {
            call["index"] = index.into();
            json!({"content": null, "tool_calls": [call]})
        };
        match event {
            Event::Text { choice, token } => {
                let content = if token.text.is_empty() { json!({}) } else { json!({"content": token.text}) };
                delta(choice, &content, &self.logprobs(token), count)
            }
            Event::Call { choice, index, name } => {
                let id = self.ids.entry((choice, index)).or_insert_with(call_id);
                let call = json!({"id": id, "type": "function", "function": {"name": name}});
                delta(choice, &called(index, call), &Value::Null, count)
            }
            Event::Arguments { choice, index, token } => {
                let call = json!({"function": {"arguments": token.text}});
                delta(choice, &called(index, call), &self.logprobs(token), count)
            }
            Event::Finished { choice, reason, stop } => {
                let mut part = delta(choice, &json!({}), &Value::Null, count);
                finish(&mut part.choice, reason, stop.as_ref());
                part
            }
        }
    }

    fn logprobs(&self, token: Token) -> Value {
        if self.with_logprobs { logprobs::chat(&[token]) } else { Value::Null }
    }
}

/// Whether a chunk says nothing, as for a token of a call or within a character. As in vLLM, no such chunk is sent.
fn is_empty(chunk: &Value) -> bool {
    let choice = &chunk["choices"][0];
    choice["delta"] == json!({}) && choice["logprobs"].is_null() && choice["finish_reason"].is_null()
}

/// The first chunk of an answer.
fn opening(choice: usize) -> Part {
    let delta = json!({"role": "assistant", "content": ""});
    let choice = json!({"index": choice, "delta": delta, "logprobs": null, "finish_reason": null});
    Part { choice, tokens: 0, fields: &["prompt_token_ids", "prompt_text"] }
}

fn delta(choice: usize, delta: &Value, logprobs: &Value, tokens: usize) -> Part {
    let choice = json!({
        "index": choice, "delta": delta, "logprobs": logprobs, "finish_reason": null, "token_ids": null,
    });
    Part { choice, tokens, fields: &[] }
}
