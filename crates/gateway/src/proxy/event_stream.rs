//! Streamed answers whose server dies, or whose time is over. HTTP can only tear such a response, which clients report as an error of
//! the network. So the stream ends with an error event, as vLLM ends a stream that fails.

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use http::{HeaderMap, Response, header};
use http_body::Frame;
use http_body_util::BodyExt;
use serde_json::json;

use super::body::{BodyError, BodyTimeout, ProxyBody};

/// The ends of the paths whose responses stream events that a client of OpenAI's or Anthropic's API reads.
const GENERATION_PATHS: [&str; 3] = ["/completions", "/responses", "/messages"];
/// The last events of complete streams. Nothing may follow them.
const FINAL_EVENTS: [&str; 5] = [
    "data: [DONE]",
    "event: message_stop",
    "event: response.completed",
    "event: response.failed",
    "event: response.incomplete",
];
/// The most bytes of an incomplete event that are held back. A larger event passes in pieces.
const MAX_HELD_BYTES: usize = 1 << 20;

/// Whether responses of this path are answers of a model.
pub(super) fn is_generation(path: &str) -> bool {
    GENERATION_PATHS.iter().any(|end| path.ends_with(end))
}

/// Whether requests of this path come from clients of a model's API.
pub(super) fn is_api(path: &str) -> bool {
    path.contains("/v1/") || is_generation(path)
}

/// Lets the stream of a response end with an error event if its body fails. Returns other responses unchanged.
pub(crate) fn end_with_error_event(response: Response<ProxyBody>) -> Response<ProxyBody> {
    let headers = response.headers();
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_stream = content_type.is_some_and(|value| value.starts_with("text/event-stream"));
    // Nothing can be added to a compressed body, or to one whose length the client knows.
    if !is_stream
        || headers.contains_key(header::CONTENT_ENCODING)
        || headers.contains_key(header::CONTENT_LENGTH)
    {
        return response;
    }
    response.map(|body| {
        let events = EventStream {
            body,
            held: BytesMut::new(),
            progress: Progress::default(),
            has_ended: false,
            trailers: None,
        };
        let frames = stream::unfold(events, |mut events| async move {
            let frame = events.frame().await?;
            Some((frame, events))
        });
        ProxyBody::stream(frames.boxed())
    })
}

/// The body of a stream of events. It passes on whole events, so that an error event never follows half of another one. This delays
/// nothing: clients, too, wait for the end of an event.
struct EventStream {
    body: ProxyBody,
    /// The beginning of an event whose end has not arrived.
    held: BytesMut,
    progress: Progress,
    /// Whether the back end's body has ended.
    has_ended: bool,
    trailers: Option<HeaderMap>,
}

/// What the client has got.
#[derive(Default)]
struct Progress {
    /// Whether events have names, as those of responses and messages have.
    named_events: Option<bool>,
    /// Whether the last event of a complete stream has passed.
    complete: bool,
    /// Whether a part of an event has passed, because it was too long to hold back.
    torn: bool,
}

// === impl EventStream ===

impl EventStream {
    async fn frame(&mut self) -> Option<Result<Frame<Bytes>, BodyError>> {
        while !self.has_ended {
            match self.body.frame().await {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => {
                        if let Some(events) = self.whole_events(bytes) {
                            return Some(Ok(Frame::data(events)));
                        }
                    }
                    Err(frame) => self.end(frame.into_trailers().ok()),
                },
                None => self.end(None),
                Some(Err(error)) => {
                    self.end(None);
                    // Half an event. A client would read the error event as its rest.
                    self.held.clear();
                    tracing::debug!(%error, "A streamed answer was cut off.");
                    return match &self.progress {
                        Progress { complete: true, .. } => None,
                        Progress { torn: true, .. } => Some(Err(error)),
                        progress => Some(Ok(Frame::data(progress.error_event(&error)))),
                    };
                }
            }
        }
        if !self.held.is_empty() {
            return Some(Ok(Frame::data(self.held.split().freeze())));
        }
        Some(Ok(Frame::trailers(self.trailers.take()?)))
    }

    fn end(&mut self, trailers: Option<HeaderMap>) {
        self.has_ended = true;
        self.trailers = trailers;
    }

    /// Returns the events that are complete now, and holds back the beginning of the next one.
    fn whole_events(&mut self, bytes: Bytes) -> Option<Bytes> {
        if bytes.is_empty() {
            return None;
        }
        // Servers write whole events, which need no copy.
        if self.held.is_empty() && end_of_last_event(&bytes, 0) == bytes.len() {
            self.progress.record(&bytes);
            return Some(bytes);
        }
        // What was held back has no blank line, but may have the beginning of one.
        let from = self.held.len().saturating_sub(2);
        self.held.extend_from_slice(&bytes);
        let end = end_of_last_event(&self.held, from);
        if end > 0 {
            self.progress.record(&self.held[..end]);
        }
        if self.held.len() - end > MAX_HELD_BYTES {
            self.progress.torn = true;
            return Some(self.held.split().freeze());
        }
        (end > 0).then(|| self.held.split_to(end).freeze())
    }
}

// === impl Progress ===

impl Progress {
    fn record(&mut self, events: &[u8]) {
        self.torn = false;
        self.named_events.get_or_insert_with(|| events.starts_with(b"event:"));
        let last = events.trim_ascii_end();
        // Only the rest of the blank lines after the event that was recorded before.
        if last.is_empty() {
            return;
        }
        let last = &last[end_of_last_event(last, 0)..];
        self.complete = FINAL_EVENTS.iter().any(|event| last.starts_with(event.as_bytes()));
    }

    /// Returns the events that end a stream which failed.
    fn error_event(&self, error: &BodyError) -> Bytes {
        // The gateway's own errors say what happened. Those of the connection say nothing to a client.
        let message = if error.is::<hyper::Error>() {
            "the model server ended in the middle of this answer: send the request again".to_owned()
        } else {
            error.to_string()
        };
        let event = if self.named_events == Some(true) {
            // Anthropic's clients read `error`, OpenAI's the fields beside it.
            let error = json!({"type": "api_error", "message": message});
            let data = json!({"type": "error", "code": "server_error", "message": message, "param": null, "error": error});
            format!("event: error\ndata: {data}\n\n")
        } else {
            let code = if error.is::<BodyTimeout>() { 504 } else { 502 };
            let error =
                json!({"message": message, "type": "InternalServerError", "param": null, "code": code});
            // No `[DONE]` follows: a client that does not know the error must not take the answer for complete.
            format!("data: {}\n\n", json!({"error": error}))
        };
        event.into()
    }
}

/// Returns where the last event ends whose blank line is after `from`; 0 if there is none.
fn end_of_last_event(bytes: &[u8], from: usize) -> usize {
    let blank_line =
        |place: &usize| bytes[..*place].ends_with(b"\n\n") || bytes[..*place].ends_with(b"\n\r\n");
    (from + 1..=bytes.len()).rev().find(blank_line).unwrap_or_default()
}
