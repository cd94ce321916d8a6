//! HTTP answers: bodies, headers and errors.

use std::{collections::HashSet, convert::Infallible, io};

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

/// A body whose bytes are all known.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// A body that ends when the stream ends.
pub(crate) fn streaming(stream: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Body {
    StreamBody::new(stream.map(|chunk| chunk.map(Frame::data))).boxed_unsync()
}

/// An answer with this code, content type and body.
pub(crate) fn bytes(code: u16, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(full(body));
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if !content_type.is_empty() {
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    answer
}

/// The 304 answer to a client whose copy of the document has this tag. The answer must not have a content type: clients
/// would overwrite the content type of their copy with it.
pub(crate) fn not_modified(tag: &str) -> Answer {
    let mut answer = Response::new(full(Vec::new()));
    *answer.status_mut() = StatusCode::NOT_MODIFIED;
    tagged(&mut answer, tag);
    answer
}

/// Sets the `ETag` header.
pub(crate) fn tagged(answer: &mut Answer, tag: &str) {
    if let Ok(tag) = HeaderValue::from_str(tag) {
        answer.headers_mut().insert(header::ETAG, tag);
    }
}

/// An answer with a value in the requested encoding.
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

/// An answer with an error.
pub(crate) fn refusal(error: &ApiError, encoding: Encoding) -> Answer {
    let mut answer = value(error.code, &error.to_status(), encoding);
    if let Some(seconds) = error.retry_after {
        answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer
}

/// The plain-text 404 answer for paths outside of every API.
pub(crate) fn no_such_page() -> Answer {
    bytes(404, "text/plain; charset=utf-8", "404 page not found\n")
}

/// The most characters of all warnings in an answer, as in kube-apiserver. Clients refuse answers with long heads.
const MAX_WARNING_CHARS: usize = 4096;

/// Adds `Warning` headers. Escapes texts that a header cannot hold, and truncates what is too long.
pub(crate) fn warn(answer: &mut Answer, warnings: &[String]) {
    let mut seen = HashSet::new();
    let mut left = MAX_WARNING_CHARS;
    for warning in warnings.iter().filter(|warning| seen.insert(*warning)) {
        if left == 0 {
            break;
        }
        let mut text = String::new();
        for c in warning.chars().take(left) {
            left -= 1;
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
