//! Entry points for requests: from this process, and over sockets.

pub(crate) mod client;
mod hosts;
pub(crate) mod listen;
pub(crate) mod send_queue;
