//! The common fields of all objects of one reply, and the frame of a streamed reply.

use axum::http::HeaderMap;
use futures::{
    Stream, StreamExt, future,
    stream::{self, BoxStream},
};
use serde_json::{Value, json};

use crate::{
    ENGINE_VERSION, Event,
    answers::{Usage, finish, with_ends},
    clock::now,
    ids::unique,
    job::Output,
};

/// The common fields of all objects of one reply.
pub(crate) struct Reply {
    id: String,
    created: u64,
    model: String,
    fingerprint: String,
}

/// A choice of a chunk, and the number of its tokens.
pub(crate) struct Part {
    pub(crate) choice: Value,
    pub(crate) tokens: usize,
    /// Fields of the chunk that are always empty here.
    pub(crate) fields: &'static [&'static str],
}

impl Reply {
    /// Names the reply after the client's `x-request-id`, or after the field `request_id`, where it sent one, as vLLM does.
    pub(crate) fn new(prefix: &str, headers: &HeaderMap, field: Option<String>, model: String) -> Self {
        let id = format!("{prefix}-{}", request_id(headers, field));
        Self { id, created: now(), model, fingerprint: format!("vllm-{ENGINE_VERSION}") }
    }

    /// The whole reply. `kv` and `ec` are the parameters with which another engine continues.
    pub(crate) fn whole(
        self,
        object: &str,
        choices: &[Value],
        usage: Usage,
        [kv, ec]: [Option<Value>; 2],
    ) -> Value {
        let mut body = self.object(object, choices);
        body["usage"] = usage.json();
        body["usage"]["completion_tokens_details"] = Value::Null;
        body["system_fingerprint"] = self.fingerprint.into();
        body["service_tier"] = Value::Null;
        body["kv_transfer_params"] = json!(kv);
        body["ec_transfer_params"] = json!(ec);
        body["metrics"] = Value::Null;
        body
    }

    /// Wraps each choice into a chunk and counts its tokens: those of `opening`, and those that `part` makes of the events. Ends with
    /// a usage chunk if the client asked for one. As in vLLM, nothing is sent before the first event, because clients measure the
    /// time to the first token by the first chunk.
    pub(crate) fn stream(
        self,
        object: &'static str,
        mut opening: Vec<Part>,
        events: BoxStream<'static, Event>,
        mut part: impl FnMut(Event) -> Part + Send,
        usage: Usage,
        output: Output,
    ) -> impl Stream<Item = Value> + Send {
        let parts = with_ends(events).flat_map(move |(event, end)| {
            let mut part = part(event);
            if let Some(Event::Finished { reason, stop, .. }) = end {
                finish(&mut part.choice, reason, stop.as_ref());
            }
            stream::iter(std::mem::take(&mut opening).into_iter().chain([part]))
        });
        // `None` marks the end, where the usage chunk is added.
        parts.map(Some).chain(stream::once(future::ready(None))).scan(usage, move |usage, part| {
            let chunk = match part {
                Some(part) => {
                    usage.completion += part.tokens;
                    let ends = !part.choice["finish_reason"].is_null();
                    let mut chunk = self.object(object, &[part.choice]);
                    for field in part.fields {
                        chunk[*field] = Value::Null;
                    }
                    if output.continuous_usage {
                        chunk["usage"] = usage.counts();
                        if object == "chat.completion.chunk" {
                            chunk["usage"]["completion_tokens_details"] = Value::Null;
                        }
                    }
                    // vLLM's last chunk has the fingerprint: that with the usage, or else that with the reason of the end.
                    if ends && !output.include_usage {
                        chunk["system_fingerprint"] = self.fingerprint.as_str().into();
                    }
                    Some(chunk)
                }
                None if output.include_usage => {
                    let mut chunk = self.object(object, &[]);
                    chunk["usage"] = usage.json();
                    chunk["system_fingerprint"] = self.fingerprint.as_str().into();
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

/// The client's name for the request, or a new one. A header comes before a field.
pub(crate) fn request_id(headers: &HeaderMap, field: Option<String>) -> String {
    let header = headers.get("x-request-id").and_then(|id| id.to_str().ok()).map(Into::into);
    let id = header.or(field).unwrap_or_else(unique);
    tracing::debug!(request_id = id, "Answering a request.");
    id
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn nothing_is_sent_before_the_first_event() {
        let reply = Reply::new("cmpl", &HeaderMap::new(), None, "m".into());
        let part = || Part { choice: json!({}), tokens: 0, fields: &[] };
        let (sender, events) = futures::channel::mpsc::unbounded();
        let (usage, output) = (Usage::default(), Output::default());
        let chunks = reply.stream("x", vec![part()], events.boxed(), move |_| part(), usage, output);
        let mut chunks = std::pin::pin!(chunks);
        assert!(chunks.next().now_or_never().is_none());
        sender.unbounded_send(Event::Finished { choice: 0, reason: "stop", stop: None }).unwrap();
        drop(sender);
        assert_eq!(chunks.count().now_or_never(), Some(2));
    }
}
