//! Sends a request to a service, like any OpenAI client.

use anyhow::{Context, bail};
use futures::StreamExt;
use serde_json::Value;

use super::{Service, question::Question};
use crate::printer;

/// Sends one prompt, and prints the streamed answer to stdout.
pub(crate) async fn ask(service: &Service, text: &str) -> anyhow::Result<()> {
    let Question { api, url, headers } = &service.question;
    let Some(pointer) = api.text_pointer() else {
        bail!("the routes of {} lead to /v1{}, which answers no prompts", service.name, api.path());
    };
    let mut body: Value = serde_json::from_str(&api.body(&service.model, text))?;
    body["stream"] = true.into();
    let mut request = super::service::http()?.post(url).header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let asked = request.body(body.to_string()).send().await;
    let response = asked.with_context(|| format!("cannot send the prompt to {url}"))?;
    let status = response.status();
    if !status.is_success() {
        bail!("{url} answered {status}: {}", response.text().await.unwrap_or_default().trim());
    }
    let mut chunks = response.bytes_stream();
    let mut pending = Vec::new();
    while let Some(chunk) = chunks.next().await {
        pending.extend_from_slice(&chunk.with_context(|| format!("the response of {url} was cut off"))?);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            let Some(data) = std::str::from_utf8(&line)?.trim_end().strip_prefix("data: ") else { continue };
            if data == "[DONE]" {
                printer::line("");
                return Ok(());
            }
            let event: Value =
                serde_json::from_str(data).context("the response has an event that is not JSON")?;
            if let Some(error) = event.get("error") {
                bail!("{url} failed in the middle of its response: {error}");
            }
            let piece = event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            if !piece.is_empty() && !printer::piece(piece) {
                return Ok(());
            }
        }
    }
    bail!("the response of {url} ended without `data: [DONE]`")
}
