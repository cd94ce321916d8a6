//! The readers of outside bytes, for fuzzing: any bytes are a message, or none, and a connection, or none.

pub use crate::server::connection_of;

use prost::Message;

use crate::{
    message::{Incoming, Reply},
    wire::{ProcessingRequest, ProcessingResponse},
};

/// What a proxy sent.
pub fn event(bytes: &[u8]) -> Option<Incoming> {
    ProcessingRequest::decode(bytes).ok().and_then(Incoming::from_wire)
}

/// What a processor answered.
pub fn reply(bytes: &[u8]) -> Option<Reply> {
    ProcessingResponse::decode(bytes).ok().and_then(Reply::from_wire)
}
