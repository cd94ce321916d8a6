//! Ways in: from this process, and over sockets.

pub(crate) mod client;
mod heads;
mod hosts;
pub(crate) mod listen;
