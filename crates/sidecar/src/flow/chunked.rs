//! Decodes a request in chunks, so that other requests get their turn between two chunks.

use std::convert::Infallible;

use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Response, StatusCode, header, uri::Authority};
use http_body::Frame;
use http_body_util::{BodyExt, Collected, StreamBody};
use longboat_tls::chain;
use serde_json::{Value, json};

use super::head::Head;
use crate::{
    answer,
    body::{MAX_RESPONSE_BYTES, ProxyBody, full, passed, read},
    chunks::Chunks,
    connectors::Part,
    upstream::Upstream,
};

/// The end of a stream.
const DONE: &str = "data: [DONE]\n\n";

/// A chunked request and its engine.
pub(super) struct ChunkedRequest {
    pub(super) upstream: Upstream,
    pub(super) head: Head,
    pub(super) engine: Authority,
    pub(super) rank: Option<u32>,
    pub(super) chunks: Chunks,
}

/// The state of a stream of chunks.
enum State {
    /// The first chunk has arrived.
    Taken(Box<ChunkedRequest>),
    /// The last chunk was sent to the client.
    Next(Box<ChunkedRequest>),
    Ended,
}

// === impl ChunkedRequest ===

impl ChunkedRequest {
    /// Returns the client's response, either complete or as a stream. A stream starts when the first chunk has arrived.
    pub(super) async fn run(mut self) -> Response<ProxyBody> {
        // Before the client gets a head, so that a refusal of the first chunk still has its own status.
        if let Err(refused) = self.step().await {
            return *refused;
        }
        // A refusal from here on is an event.
        if self.chunks.is_stream() {
            return self.stream();
        }
        loop {
            match self.step().await {
                Ok(true) => {}
                Ok(false) => return whole(&self.chunks.answer()),
                Err(refused) => return *refused,
            }
        }
    }

    /// Requests the next chunk. Returns `false` if there is none.
    async fn step(&mut self) -> Result<bool, Box<Response<ProxyBody>>> {
        let Some(body) = self.chunks.next() else { return Ok(false) };
        let request = self.head.request_to_read(Part { body: body.into(), rank: self.rank });
        let sent = self.upstream.send(&self.engine, request).await;
        let (mut head, body) =
            sent.map_err(|error| Box::new(answer::unreachable_decoder(&error)))?.into_parts();
        let bad = |status, why: &str| Box::new(answer::error(status, &format!("the engine's answer {why}")));
        let body = read(body, MAX_RESPONSE_BYTES)
            .await
            .map_err(|error| bad(StatusCode::BAD_GATEWAY, &format!("is unusable: {}", chain(&error))))?;
        if !head.status.is_success() {
            longboat_accept::remove_hop_by_hop(&mut head.headers);
            head.headers.remove(header::CONTENT_LENGTH);
            return Err(Box::new(Response::from_parts(head, full(body))));
        }
        self.chunks.take(&body).map_err(|error| {
            bad(StatusCode::INTERNAL_SERVER_ERROR, &format!("is not a JSON object: {error}"))
        })?;
        Ok(true)
    }

    fn stream(self) -> Response<ProxyBody> {
        let events = stream::unfold(State::Taken(Box::new(self)), |state| async {
            let (text, state) = match state {
                State::Taken(chunked) => (event(&chunked.chunks.event()), State::Next(chunked)),
                State::Next(mut chunked) => match chunked.step().await {
                    Ok(true) => (event(&chunked.chunks.event()), State::Next(chunked)),
                    Ok(false) => (event(&chunked.chunks.usage_event()) + DONE, State::Ended),
                    Err(refused) => (event(&error_event(*refused).await), State::Ended),
                },
                State::Ended => return None,
            };
            Some((Ok::<_, Infallible>(Frame::data(Bytes::from(text))), state))
        });
        let mut response = Response::new(passed(StreamBody::new(events)));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }
}

fn event(event: &Value) -> String {
    format!("data: {event}\n\n")
}

/// Reads an engine's error in the middle of a stream, when the status has already been sent.
async fn error_event(refused: Response<ProxyBody>) -> Value {
    let body = refused.into_body().collect().await.map(Collected::to_bytes).unwrap_or_default();
    serde_json::from_slice(&body).unwrap_or_else(|_| json!({ "error": String::from_utf8_lossy(&body) }))
}

fn whole(answer: &Value) -> Response<ProxyBody> {
    answer::of(StatusCode::OK, "application/json", answer.to_string())
}
