//! Server-sent events as OpenAI's API frames them: `data: JSON`, a blank line, and `data: [DONE]` at the end.

use std::convert::Infallible;

use axum::{
    body::{Body, Bytes},
    http::header,
    response::{IntoResponse, Response},
};
use futures::{Stream, StreamExt, stream};
use serde_json::Value;

/// Sends each value as it becomes ready. When the client goes away, the stream is dropped, and with it the work.
pub(crate) fn response(values: impl Stream<Item = Value> + Send + 'static) -> Response {
    let frames = values
        .map(|value| Bytes::from(format!("data: {value}\n\n")))
        .chain(stream::once(async { Bytes::from_static(b"data: [DONE]\n\n") }))
        .map(Ok::<_, Infallible>);
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8"), (header::CACHE_CONTROL, "no-cache")];
    (headers, Body::from_stream(frames)).into_response()
}
