//! The end of a connection: the peer is told, asked whether it is there, or cut off.

use std::time::Duration;

use super::{ConnectionError, Core};
use crate::server::{
    Processor,
    http2::{
        frame::{self, Code},
        stream::{DEADLINE_EXCEEDED, Status},
    },
};

/// The payloads of pings: at the end of a connection, and to a silent peer.
const SHUTDOWN_PING: [u8; 8] = [0; 8];
const KEEPALIVE_PING: [u8; 8] = [1; 8];

/// The progress of the connection's shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shutdown {
    No,
    /// The peer was told, but calls that it has already sent are still accepted.
    Announced,
    /// New calls are refused.
    Refusing,
}

impl<P: Processor> Core<P> {
    /// Tells the peer not to open new calls.
    pub(in crate::server::http2) fn leave(&mut self) {
        if self.shutdown == Shutdown::No {
            self.shutdown = Shutdown::Announced;
            // Calls that the peer sends before it answers the ping are still accepted.
            frame::goaway(0x7fff_ffff, Code::None, &mut self.output);
            frame::ping(0, SHUTDOWN_PING, &mut self.output);
        }
    }

    /// Asks the peer whether it is still there.
    pub(in crate::server::http2) fn ping(&mut self) {
        frame::ping(0, KEEPALIVE_PING, &mut self.output);
    }

    /// Handles the answer to a ping. Only the answer to [`SHUTDOWN_PING`] says that no more calls are on their way.
    pub(super) fn ping_answered(&mut self, payload: [u8; 8]) {
        if payload == SHUTDOWN_PING && self.shutdown == Shutdown::Announced {
            self.shutdown = Shutdown::Refusing;
            frame::goaway(self.last, Code::None, &mut self.output);
        }
    }

    /// Whether the shutdown is complete.
    pub(in crate::server::http2) fn is_done(&self) -> bool {
        self.shutdown == Shutdown::Refusing && self.calls.is_empty()
    }

    /// Ends calls that have waited too long for their first message. `passed` is the time since the last look.
    pub(in crate::server::http2) fn expire(&mut self, passed: Duration, limit: Duration) {
        self.idle_frames = 0;
        let mut late = Vec::new();
        for (&stream, call) in &mut self.calls {
            let Some(waited) = call.waited.as_mut().filter(|_| call.end.is_none()) else { continue };
            *waited += passed;
            if *waited >= limit {
                call.end = Some(Status::new(DEADLINE_EXCEEDED, "no message has come"));
                late.push(stream);
            }
        }
        // Apart from the loop, because a call that ends leaves the map.
        for stream in late {
            self.after(stream);
        }
    }

    /// Tells the peer the error that ends the connection.
    pub(in crate::server::http2) fn fail(&mut self, ConnectionError(code): ConnectionError) {
        frame::goaway(self.last, code, &mut self.output);
        // The exchanges end now, and not when the peer has read why.
        self.calls.clear();
        self.wakers.clear();
    }
}
