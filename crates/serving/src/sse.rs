//! Server-sent events in the form of OpenAI's API.

use std::convert::Infallible;

use axum::{
    body::{Body, Bytes},
    http::header,
    response::{IntoResponse, Response},
};
use futures::{Stream, StreamExt, stream};
use serde_json::Value;

/// Streams values as `data: JSON` and a blank line, with `data: [DONE]` at the end. When the client disconnects, the stream
/// is dropped, which cancels the work.
pub(crate) fn data(values: impl Stream<Item = Value> + Send + 'static) -> Response {
    let end = stream::once(async { Bytes::from_static(b"data: [DONE]\n\n") });
    response(values.map(|value| Bytes::from(format!("data: {value}\n\n"))).chain(end))
}

/// Streams events that are named after their `type`, without an end marker, as in responses.
pub(crate) fn named(values: impl Stream<Item = Value> + Send + 'static) -> Response {
    response(values.map(|value| {
        let name = value["type"].as_str().unwrap_or("message");
        Bytes::from(format!("event: {name}\ndata: {value}\n\n"))
    }))
}

fn response(frames: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8"), (header::CACHE_CONTROL, "no-cache")];
    (headers, Body::from_stream(frames.map(Ok::<_, Infallible>))).into_response()
}
