//! Ways in: from this process, and over sockets.

pub(crate) mod client;
pub(crate) mod listen;
