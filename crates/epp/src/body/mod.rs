//! Reads the parts of a request body that the picker needs, in one pass and without building a document.
//!
//! Strings without escapes are borrowed from the body, and unneeded fields are skipped. The body itself is sent on unchanged.

mod api;
mod content;
mod fields;
mod grpc;
mod image_size;
mod json;
mod media;
mod parsed;
mod prompt_text;
mod protobuf;
mod scalars;

pub(crate) use api::Api;
pub(crate) use grpc::usage as grpc_usage;
pub(crate) use media::{media, rendered};
pub(crate) use parsed::{BodyError, ParsedBody, Reading};
pub(crate) use protobuf::{HEADER, length};

/// Reads a body of this API.
pub(crate) fn parse(api: Api, body: &[u8], reading: &Reading) -> Result<ParsedBody, BodyError> {
    match api {
        Api::Opaque => Ok(ParsedBody::default()),
        api if api.is_grpc() => grpc::read(api, body, reading),
        api => json::read(api, body, reading),
    }
}

#[cfg(test)]
mod tests;
