//! `POST /v1/chat/completions`.

use std::sync::Arc;

use axum::{extract::State, http::HeaderMap, response::Response};
use futures::{StreamExt, stream};
use serde_json::{Value, json};

use super::{
    completions::{Reply, known_model},
    error::ApiError,
    generation::{self, Event},
    request::{Chat, Tokenized},
    sse, transfer,
};
use crate::{engine::Engine, text};

pub(crate) async fn create(
    State(engine): State<Arc<Engine>>,
    headers: HeaderMap,
    request: Chat,
) -> Result<Response, ApiError> {
    let model = known_model(&engine, &request.sampling)?;
    let prompt = request.prompt()?;
    let prompts = [Tokenized { tokens: text::tokens(&prompt), text: prompt }];
    let (generation, usage) =
        generation::start(&engine, &request.sampling, &prompts, &request.last()?, None).await?;
    let reply = Reply::new("chatcmpl", &headers, model);
    if request.sampling.stream == Some(true) {
        let count = request.sampling.choices()?;
        let opening =
            (0..count).map(|choice| delta(choice, &json!({"role": "assistant", "content": ""}), None));
        let include_usage = request.sampling.include_usage();
        let chunks =
            stream::iter(opening.collect::<Vec<_>>()).chain(generation.into_stream().map(
                |event| match event {
                    Event::Piece { choice, text } => delta(choice, &json!({"content": text}), None),
                    Event::Finished { choice, reason } => delta(choice, &json!({}), Some(reason)),
                },
            ));
        let stream = reply.stream("chat.completion.chunk", chunks, usage, include_usage);
        return Ok(transfer::marked(&request.sampling, sse::response(stream)));
    }
    let (answers, usage) = super::completions::collect(generation, usage, request.sampling.choices()?).await;
    let choices: Vec<Value> = answers
        .into_iter()
        .enumerate()
        .map(|(index, answer)| {
            json!({
                "index": index, "finish_reason": answer.reason, "logprobs": null,
                "message": {"role": "assistant", "content": answer.text},
            })
        })
        .collect();
    let body = reply.whole("chat.completion", &choices, usage);
    Ok(transfer::told(&engine, &request.sampling, body))
}

fn delta(choice: usize, delta: &Value, reason: Option<&str>) -> Value {
    json!({"index": choice, "delta": delta, "logprobs": null, "finish_reason": reason})
}
