//! Flow-control windows (RFC 9113, sections 5.2 and 6.9): those that the peer gives, and those that it gets.

use super::{ConnectionError, Core};
use crate::{
    server::{
        Processor,
        http2::{
            frame::{self, Code, Head},
            stream::INTERNAL,
        },
    },
    windows::{CONNECTION_WINDOW, STREAM_WINDOW},
};

/// The initial window of every peer.
pub(super) const INITIAL_WINDOW: u32 = 65_535;
/// The largest window that HTTP/2 allows.
pub(super) const MAX_WINDOW: i64 = 0x7fff_ffff;

impl<P: Processor> Core<P> {
    /// Restores the connection's receive window. It is always restored: a call whose answers wait blocks its own caller, but no
    /// other call.
    pub(super) fn received(&mut self, bytes: u32) {
        self.owed += bytes;
        if self.owed > CONNECTION_WINDOW / 2 {
            frame::window_update(0, self.owed, &mut self.output);
            self.owed = 0;
        }
    }

    /// Restores a call's receive window, unless answers wait for its caller. So the unread answers of a call never exceed its window.
    pub(super) fn release_window(&mut self, stream: u32) {
        let Some(call) = self.calls.get_mut(&stream) else { return };
        // Small requests end before half of the window is used, so they need no such frame at all.
        if call.owed > STREAM_WINDOW / 2 && !call.remote_closed && call.waiting.is_none() {
            frame::window_update(stream, call.owed, &mut self.output);
            call.owed = 0;
        }
    }

    /// Changes the send windows of all calls, of which there are at most [`MAX_STREAMS`](crate::server::MAX_STREAMS).
    pub(super) fn change_windows(&mut self, window: i64) -> Result<(), ConnectionError> {
        let change = window - self.call_window;
        self.call_window = window;
        for (&stream, call) in &mut self.calls {
            #[cfg(test)]
            {
                self.visits += 1;
            }
            call.window += change;
            if call.window > MAX_WINDOW {
                return Err(ConnectionError(Code::FlowControl));
            }
            // A call whose answers wait may have waited for this.
            if call.waiting.is_some() && call.window > 0 && !call.listed {
                call.listed = true;
                self.ready.push_back(stream);
            }
        }
        Ok(())
    }

    pub(super) fn window_update(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        let Ok(bytes) = <[u8; 4]>::try_from(payload) else { return Err(ConnectionError(Code::FrameSize)) };
        let more = i64::from(u32::from_be_bytes(bytes) & 0x7fff_ffff);
        if more == 0 {
            return Err(ConnectionError(Code::Protocol));
        }
        // Calls that wait for it are in `starved`, which `fill` looks at.
        if head.stream == 0 {
            self.window += more;
            return if self.window > MAX_WINDOW { Err(ConnectionError(Code::FlowControl)) } else { Ok(()) };
        }
        if self.is_idle(head.stream) {
            return Err(ConnectionError(Code::Protocol));
        }
        // The peer may not know yet that a call has ended.
        let Some(call) = self.calls.get_mut(&head.stream) else { return Ok(()) };
        call.window += more;
        if call.window > MAX_WINDOW {
            self.abort(head.stream, Code::FlowControl, INTERNAL);
        } else {
            self.after(head.stream);
        }
        Ok(())
    }
}
