//! Sends a request to a service, like any OpenAI client.

use std::time::Duration;

use anyhow::{Context, bail};
use futures::StreamExt;
use longboat_dashboard::local_client;
use longboat_offline::validate::shortened;
use reqwest::StatusCode;
use serde_json::Value;
use tokio::time::Instant;

use super::{Service, question::Question};
use crate::printer;

/// The variable with the API key of a service that asks for one. Not OPENAI_API_KEY: that key is for somebody else's servers.
const API_KEY: &str = "LONGBOAT_API_KEY";

/// The most bytes of a stream that wait for the end of their line.
const MAX_PENDING_BYTES: usize = 4 << 20;

/// An answer as far as it has arrived.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// The number of tokens of the prompt and of the answer, if the server reports them.
    pub(crate) tokens: Option<(u64, u64)>,
    pub(crate) time_to_first_token: Option<Duration>,
    /// The time from the first token to the last.
    pub(crate) streaming: Duration,
}

/// The API key that the person has given.
pub(crate) fn given_key() -> Option<String> {
    std::env::var(API_KEY).ok()
}

/// Sends one prompt, and prints the streamed answer to stdout.
pub(crate) async fn ask(service: &Service, text: &str) -> anyhow::Result<()> {
    let Question { api, .. } = &service.question;
    if api.text_pointer().is_none() {
        bail!("the routes of {} lead to /v1{}, which answers no prompts", service.name, api.path());
    }
    let body = serde_json::from_str(&api.body(&service.model, text))?;
    if stream(service, body, &mut Answer::default()).await? {
        printer::line("");
    }
    Ok(())
}

/// Sends a request, and prints the text of the streamed answer to stdout as it arrives. Returns whether the reader of stdout is
/// still there. `answer` has what has arrived, also if the future is dropped.
pub(crate) async fn stream(service: &Service, mut body: Value, answer: &mut Answer) -> anyhow::Result<bool> {
    let Question { api, url, headers, .. } = &service.question;
    body["stream"] = true.into();
    let mut request = local_client(service.question.resolved())
        .build()?
        .post(url)
        .header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    if let Some(key) = given_key().as_deref().or_else(|| service.question.known_key()) {
        request = request.bearer_auth(key);
    }
    let begin = Instant::now();
    let result = request.body(body.to_string()).send().await;
    let response = result.with_context(|| format!("cannot send the prompt to {url}"))?;
    let status = response.status();
    if !status.is_success() {
        let advice = match status {
            StatusCode::UNAUTHORIZED => format!("; put an API key of the service into {API_KEY}"),
            _ => String::new(),
        };
        let text = shortened(super::service::beginning(response).await.trim());
        bail!("{url} answered {status}: {text}{advice}");
    }
    let mut chunks = response.bytes_stream();
    let mut pending = Vec::new();
    while let Some(chunk) = chunks.next().await {
        pending.extend_from_slice(&chunk.with_context(|| format!("the response of {url} was cut off"))?);
        if pending.len() > MAX_PENDING_BYTES {
            bail!("the response of {url} has an event of more than {} MiB", MAX_PENDING_BYTES >> 20);
        }
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            // A chunk may end within a character, but a line does not. Empty lines end events.
            let Some(data) = std::str::from_utf8(&line)?.trim_end().strip_prefix("data: ") else { continue };
            if data == "[DONE]" {
                return Ok(true);
            }
            let event: Value =
                serde_json::from_str(data).context("the response has an event that is not JSON")?;
            if let Some(error) = event.get("error") {
                bail!("{url} failed in the middle of its response: {error}");
            }
            // With `include_usage`, the last event has the counts, and no choice.
            let count = |name: &str| event["usage"][name].as_u64();
            if let (Some(prompt), Some(completion)) = (count("prompt_tokens"), count("completion_tokens")) {
                answer.tokens = Some((prompt, completion));
            }
            let piece = api.text_pointer().and_then(|pointer| event.pointer(pointer));
            let piece = piece.and_then(Value::as_str).unwrap_or_default();
            if piece.is_empty() {
                continue;
            }
            let first = *answer.time_to_first_token.get_or_insert_with(|| begin.elapsed());
            answer.streaming = begin.elapsed().saturating_sub(first);
            answer.text.push_str(piece);
            if !printer::answer(piece) {
                return Ok(false);
            }
        }
    }
    bail!("the response of {url} ended without `data: [DONE]`")
}
