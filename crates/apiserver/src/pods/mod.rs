//! Connections into pods: port-forwarding over SPDY/3.1, plain or inside a WebSocket.

mod dictionary;
pub(crate) mod forward;
mod session;
mod spdy;
mod tunnel;
