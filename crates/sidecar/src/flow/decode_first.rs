//! Sends the request to the decoder first. The decoder may find that too little of the prompt is cached.

use std::future::ready;

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use http::{HeaderMap, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use hyper::body::Incoming;
use longboat_tls::chain;

use super::{
    engines::{Flow, Route},
    head::Head,
};
use crate::{
    answer,
    body::{MAX_RESPONSE_BYTES, ProxyBody, full, passed, read},
    connectors::{
        Part,
        shared_storage::{self, Verdict},
    },
    object::Object,
};

// === impl Flow ===

impl Flow {
    /// Returns the decoder's response. Returns `None` if too little is cached, so that the prompt must be computed first.
    pub(super) async fn decode_first(
        &self,
        head: &Head,
        original: &Bytes,
        route: &Route<'_>,
    ) -> Option<Response<ProxyBody>> {
        let request = head.request_to_read(Part { body: original.clone().into(), rank: None });
        let answer = match self.decoder.send(route.engine, request).await {
            Ok(answer) => answer,
            Err(error) => return Some(answer::unreachable_decoder(&error)),
        };
        if !answer.status().is_success() {
            return Some(refused(answer).await);
        }
        let (mut head, mut body) = answer.into_parts();
        let mut reader = Reader::of(&head.headers);
        // The head waits for the verdict too: after a miss, the client gets the head of another response.
        let verdict = loop {
            let piece = match body.frame().await {
                None => break reader.finish(),
                Some(Ok(frame)) => frame.into_data(),
                Some(Err(error)) => {
                    let message = format!("the engine's answer ended early: {}", chain(&error));
                    return Some(answer::error(StatusCode::BAD_GATEWAY, &message));
                }
            };
            // Trailers come last and contain no verdict.
            let Ok(piece) = piece else { continue };
            match reader.push(&piece) {
                Verdict::Unknown => {}
                decided => break Ok(decided),
            }
        };
        match verdict {
            // What is left of the response is dropped with its connection, so that its engine stops.
            Ok(Verdict::Missed) => None,
            Ok(_) => {
                longboat_accept::remove_hop_by_hop(&mut head.headers);
                let start = stream::once(ready(Ok(Frame::data(reader.held.freeze()))));
                let body = StreamBody::new(start.chain(BodyStream::new(body)));
                Some(Response::from_parts(head, passed(body)))
            }
            Err(error) => {
                let message = format!("the engine's answer is not a JSON object: {error}");
                Some(answer::error(StatusCode::INTERNAL_SERVER_ERROR, &message))
            }
        }
    }
}

/// Returns the decoder's refusal to the client, without its headers.
async fn refused(answer: Response<Incoming>) -> Response<ProxyBody> {
    let (head, body) = answer.into_parts();
    match read(body, MAX_RESPONSE_BYTES).await {
        Ok(body) => {
            let mut response = Response::from_parts(head, full(body));
            answer::bare(&mut response);
            response
        }
        Err(error) => {
            let message = format!("the engine's answer is unusable: {}", chain(&error));
            answer::error(StatusCode::BAD_GATEWAY, &message)
        }
    }
}

/// Reads a response until the verdict is known, and keeps the bytes.
struct Reader {
    held: BytesMut,
    is_stream: bool,
    /// The start of the next line to read.
    line: usize,
}

// === impl Reader ===

impl Reader {
    fn of(headers: &HeaderMap) -> Self {
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        Self { held: BytesMut::new(), is_stream: kind.eq_ignore_ascii_case("text/event-stream"), line: 0 }
    }

    /// Adds a piece of the response. A response that is too long to be held counts as [`Verdict::Met`].
    fn push(&mut self, piece: &Bytes) -> Verdict {
        self.held.extend_from_slice(piece);
        let verdict = if self.is_stream { self.lines() } else { Verdict::Unknown };
        if verdict == Verdict::Unknown && self.held.len() > MAX_RESPONSE_BYTES {
            return Verdict::Met;
        }
        verdict
    }

    /// Returns the verdict of the complete lines.
    fn lines(&mut self) -> Verdict {
        while let Some(length) = self.held[self.line..].iter().position(|byte| *byte == b'\n') {
            let line = &self.held[self.line..self.line + length];
            self.line += length + 1;
            let Some(data) = line.strip_prefix(b"data:") else { continue };
            match Object::parse(data).map(|event| shared_storage::verdict(&event)) {
                Ok(Verdict::Unknown) => {}
                Ok(decided) => return decided,
                // Data such as `[DONE]` ends the stream.
                Err(_) => return Verdict::Met,
            }
        }
        Verdict::Unknown
    }

    /// Returns the verdict of the complete response.
    fn finish(&self) -> Result<Verdict, serde_json::Error> {
        if self.is_stream {
            return Ok(Verdict::Met);
        }
        Object::parse(&self.held).map(|answer| shared_storage::verdict(&answer))
    }
}
