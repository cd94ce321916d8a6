//! The parsers of outside bytes, for fuzzing. Each of them accepts any input.

pub use crate::server::fuzzing::connection_of;
#[cfg(any(test, feature = "fuzzing"))]
pub use crate::server::peer::frames;

use prost::Message;

use crate::{
    message::{Incoming, Reply},
    wire::{ProcessingRequest, ProcessingResponse},
};

/// Parses a message from a proxy.
pub fn event(bytes: &[u8]) -> Option<Incoming> {
    ProcessingRequest::decode(bytes).ok().and_then(Incoming::from_wire)
}

/// Parses a message from a processor.
pub fn reply(bytes: &[u8]) -> Option<Reply> {
    ProcessingResponse::decode(bytes).ok().and_then(Reply::from_wire)
}
