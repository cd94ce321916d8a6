//! Answers: bodies, headers, refusals.

use std::{convert::Infallible, io};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use serde_json::Value;

use crate::{request::accept::Encoding, status::ApiError};

/// The body of an answer.
pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// An answer.
pub(crate) type Answer = Response<Body>;

/// A body that is complete.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// A body that goes on as long as the stream.
pub(crate) fn streaming(stream: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Body {
    StreamBody::new(stream.map(|chunk| chunk.map(Frame::data))).boxed_unsync()
}

/// An answer with this content type.
pub(crate) fn bytes(code: u16, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(full(body));
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if !content_type.is_empty() {
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    answer
}

/// The answer to a client that has the document with this tag already. It must not say a content type: clients replace
/// that of their copy with it.
pub(crate) fn not_modified(tag: &str) -> Answer {
    let mut answer = Response::new(full(Vec::new()));
    *answer.status_mut() = StatusCode::NOT_MODIFIED;
    tagged(&mut answer, tag);
    answer
}

/// Names the version of a document.
pub(crate) fn tagged(answer: &mut Answer, tag: &str) {
    if let Ok(tag) = HeaderValue::from_str(tag) {
        answer.headers_mut().insert(header::ETAG, tag);
    }
}

/// A value in the encoding that was asked for.
pub(crate) fn value(code: u16, value: &Value, encoding: Encoding) -> Answer {
    match encoding {
        Encoding::Json => {
            let mut body = serde_json::to_vec(value).unwrap_or_default();
            body.push(b'\n');
            bytes(code, "application/json", body)
        }
        Encoding::PrettyJson => {
            bytes(code, "application/json", serde_json::to_vec_pretty(value).unwrap_or_default())
        }
        Encoding::Yaml => bytes(code, "application/yaml", serde_saphyr::to_string(value).unwrap_or_default()),
    }
}

/// A refusal.
pub(crate) fn refusal(error: &ApiError, encoding: Encoding) -> Answer {
    let mut answer = value(error.code, &error.to_status(), encoding);
    if let Some(seconds) = error.retry_after {
        answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer
}

/// The plain text that paths outside of every API get.
pub(crate) fn no_such_page() -> Answer {
    bytes(404, "text/plain; charset=utf-8", "404 page not found\n")
}

/// Adds `Warning` headers; texts that a header cannot hold are escaped, long ones cut.
pub(crate) fn warn(answer: &mut Answer, warnings: &[String]) {
    let mut seen: Vec<&String> = Vec::new();
    for warning in warnings {
        if seen.contains(&warning) {
            continue;
        }
        seen.push(warning);
        let mut text = String::with_capacity(warning.len());
        for c in warning.chars().take(4096) {
            match c {
                '"' | '\\' => {
                    text.push('\\');
                    text.push(c);
                }
                c if c.is_control() => text.push(' '),
                c => text.push(c),
            }
        }
        if let Ok(header) = HeaderValue::from_bytes(format!("299 - \"{text}\"").as_bytes()) {
            answer.headers_mut().append(header::WARNING, header);
        }
    }
}
