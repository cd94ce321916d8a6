//! The KV cache events of inference engines as pure data.
//!
//! An engine (vLLM, SGLang) publishes which blocks of tokens its prefix cache stores and drops, on a ZeroMQ PUB socket, and
//! repeats them from a sequence number on over a ROUTER socket. Here are the layers of that, none of which opens a connection:
//!
//! * [`zmtp`]: the wire protocol, bytes in and bytes out, for SUB, DEALER, PUB and ROUTER sockets;
//! * [`msgpack`]: reading and writing the format of the payload;
//! * [`Batch`] and [`Event`]: what a payload says, in vLLM's array form and its map form;
//! * [`Follower`]: which messages are next, repeated, or follow a gap;
//! * [`Index`]: who holds which block, and how much of a prompt each endpoint holds;
//! * [`Expected`]: who will hold which block soon, because a request was just sent there.

mod event;
mod expected;
mod follower;
mod index;
mod keys;
pub mod msgpack;
pub mod zmtp;

pub use event::{Batch, BatchError, Event, ExtraKey, Stored};
pub use expected::Expected;
pub use follower::{Follower, Step};
pub use index::{Index, Limits, Outcome};
pub use keys::{BlockKey, Chain};
