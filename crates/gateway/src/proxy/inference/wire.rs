//! Converts HTTP messages to the form that a picker sees.

use bytes::{Bytes, BytesMut};
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header, request::Parts, response,
    uri::PathAndQuery,
};
use longboat_extproc::{Header, HeaderChanges, Headers, ImmediateResponse};

use crate::proxy::{
    answer::{page, refuse_as_engines},
    body::ProxyBody,
};

pub(super) fn request_headers(head: &Parts) -> Headers {
    let mut headers = Headers::new();
    headers.push(":method", head.method.as_str().to_owned());
    headers.push(":path", head.uri.path_and_query().map_or("/", PathAndQuery::as_str).to_owned());
    headers.push(":scheme", "http");
    if let Some(host) = head.headers.get(header::HOST) {
        headers.push(":authority", Bytes::copy_from_slice(host.as_bytes()));
    }
    let Headers(fields) = listed(&head.headers);
    headers.0.extend(fields.into_iter().filter(|field| field.name.as_ref() != b"host"));
    headers
}

pub(super) fn response_headers(head: &response::Parts) -> Headers {
    let mut headers = Headers::new();
    headers.push(":status", head.status.as_str().to_owned());
    let Headers(fields) = listed(&head.headers);
    headers.0.extend(fields);
    headers
}

/// Copies the fields to one buffer, because an allocation for each would cost more than the bytes.
pub(super) fn listed(headers: &HeaderMap) -> Headers {
    let bytes = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    let mut buffer = BytesMut::with_capacity(bytes);
    for (name, value) in headers {
        buffer.extend_from_slice(name.as_str().as_bytes());
        buffer.extend_from_slice(value.as_bytes());
    }
    let mut buffer = buffer.freeze();
    let field = |(name, value): (&HeaderName, &HeaderValue)| {
        Header::new(buffer.split_to(name.as_str().len()), buffer.split_to(value.len()))
    };
    headers.iter().map(field).collect()
}

/// Applies a picker's changes. Like Envoy, this ignores changes of pseudo-headers and of the host.
pub(super) fn change(headers: &mut HeaderMap, changes: &HeaderChanges) {
    for field in &changes.set {
        if field.name.starts_with(b":") || field.name.eq_ignore_ascii_case(b"host") {
            continue;
        }
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(&field.name), HeaderValue::from_maybe_shared(field.value.clone()))
        {
            headers.insert(name, value);
        }
    }
    for name in &changes.remove {
        headers.remove(name);
    }
}

/// Converts a response that the picker itself creates. A picker says in plain text why it refuses a request
/// (`compatibility.yaml#gateway-picker-refusals`).
pub(super) fn answered(immediate: ImmediateResponse) -> Response<ProxyBody> {
    let ImmediateResponse { status, body, headers, .. } = immediate;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let is_refusal = status.as_u16() >= 400 && headers.get(header::CONTENT_TYPE.as_str()).is_none();
    let mut response = match std::str::from_utf8(&body) {
        Ok(text) if is_refusal => refuse_as_engines(status, text),
        _ => page(status, "text/plain", body),
    };
    change(response.headers_mut(), &headers);
    response
}
