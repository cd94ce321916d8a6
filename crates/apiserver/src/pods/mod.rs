//! Connections into pods: port-forwarding, proxied requests, and the streams of exec and attach.

mod dictionary;
pub(crate) mod exec;
pub(crate) mod forward;
pub(crate) mod proxy;
mod remote_spdy;
mod remote_ws;
mod session;
mod spdy;
mod streams;
mod tunnel;
mod upgrade;
