//! A peer that sends any bytes, for fuzzing.

use std::{
    sync::Arc,
    task::{Context, Waker},
};

use super::core::Core;
use crate::server::{Processor, ServerOptions, options::ServerState};

/// Feeds bytes to a connection, as a proxy might send them. Checks that the output is bounded.
///
/// # Panics
///
/// If the output is larger than so few bytes can cause.
pub fn connection_of<P: Processor>(bytes: &[u8], processor: P) {
    let options = ServerOptions { max_receive_bytes: 1 << 16, ..ServerOptions::default() };
    let mut core = Core::new(Arc::new(ServerState::new(Arc::new(processor), options)));
    let mut rest = bytes;
    while let Ok(taken @ 1..) = core.receive(rest) {
        core.poll(&Context::from_waker(Waker::noop()));
        core.fill();
        assert!(core.output().len() < 16 << 20, "more is written than was asked for");
        core.output().clear();
        rest = &rest[taken..];
    }
}
