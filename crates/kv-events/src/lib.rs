//! The KV cache events of inference engines as pure data.
//!
//! An engine (vLLM, SGLang) publishes which blocks of tokens its prefix cache stores and drops, on a ZeroMQ PUB socket, and
//! repeats them from a sequence number on over a ROUTER socket. This crate has the layers of this protocol, none of which
//! opens a connection:
//!
//! * [`zmtp`]: the wire protocol for SUB, DEALER, PUB and ROUTER sockets, from bytes to bytes;
//! * [`msgpack`]: reading and writing the format of the payload;
//! * [`Batch`] and [`Event`]: the contents of a payload, in vLLM's array form and its map form;
//! * [`Follower`]: decides whether a message is the next one, repeated, or follows a gap;
//! * [`Index`]: which endpoints hold a block, and how much of a prompt each endpoint holds;
//! * [`ExpectedBlocks`]: which endpoints will soon hold a block, because a request was just sent to them.

mod event;
mod expected;
mod follower;
mod index;
mod keys;
pub mod msgpack;
mod parts;
pub mod zmtp;

pub use event::{Batch, BatchError, Event, ExtraKey, GPU, Stored};
pub use expected::ExpectedBlocks;
pub use follower::{Follower, Step};
pub use index::{Index, Limits, Outcome, Removals};
pub use keys::{BlockKey, Chain};
