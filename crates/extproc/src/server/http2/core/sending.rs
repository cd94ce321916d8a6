//! Sends the answers of calls, as far as windows and the size of the output allow.

use super::{Core, MAX_FILLED};
use crate::server::{
    Processor,
    http2::{
        frame::{self, Code, MAX_FRAME},
        hpack,
        stream::{RESOURCE_EXHAUSTED, Status},
    },
};

impl<P: Processor> Core<P> {
    /// Encodes messages of the calls.
    pub(in crate::server::http2) fn fill(&mut self) {
        let longest = self.shared.options.max_send_bytes;
        while self.output.len() < MAX_FILLED {
            // A starved call can only go on when the connection has a window, and then it sends something.
            let starved = if self.window > 0 { self.starved.pop_front() } else { None };
            let Some(stream) = starved.or_else(|| self.ready.pop_front()) else { return };
            let Some(call) = self.calls.get_mut(&stream) else { continue };
            call.listed = false;
            #[cfg(test)]
            {
                self.visits += 1;
            }
            while self.output.len() < MAX_FILLED && call.load(longest) {
                let rest = call.sending.len() - call.sent;
                let allowed = usize::try_from(call.window.min(self.window)).unwrap_or_default();
                let part = rest.min(allowed).min(self.frame_limit);
                // A window is closed: `list` finds out which.
                if part == 0 {
                    break;
                }
                if !call.answered {
                    call.answered = true;
                    let length = hpack::RESPONSE.len();
                    frame::head(length, frame::HEADERS, frame::END_HEADERS, stream, &mut self.output);
                    self.output.extend_from_slice(hpack::RESPONSE);
                }
                frame::head(part, frame::DATA, 0, stream, &mut self.output);
                self.output.extend_from_slice(&call.sending[call.sent..call.sent + part]);
                call.sent += part;
                let sent = i64::try_from(part).unwrap_or(i64::MAX);
                call.window -= sent;
                self.window -= sent;
                self.idle_frames = self.idle_frames.saturating_sub(super::IDLE_FRAMES_PER_CALL_FRAME);
            }
            let done = call.out.is_empty() && call.sent == call.sending.len();
            if done && let Some(status) = call.end.take() {
                let (answered, remote_closed) = (call.answered, call.remote_closed);
                call.ended(status.code);
                self.end(stream, answered, remote_closed, &status);
                self.forget(stream);
                continue;
            }
            if !done {
                if self.hold(stream) {
                    self.list(stream);
                }
                continue;
            }
            call.waiting = None;
            // A call lives as long as an HTTP response, and each would keep the buffer of its longest message.
            if call.sending.capacity() > MAX_FRAME {
                call.sending = Vec::new();
                call.sent = 0;
            }
            self.release_window(stream);
        }
    }

    /// Whether more messages can be encoded once the output is written.
    pub(in crate::server::http2) fn can_fill(&self) -> bool {
        !self.ready.is_empty() || (self.window > 0 && !self.starved.is_empty())
    }

    /// Ends a stream with the status of its call.
    pub(super) fn end(&mut self, stream: u32, answered: bool, remote_closed: bool, status: &Status) {
        let mut block = if answered { Vec::new() } else { hpack::RESPONSE.to_vec() };
        hpack::trailers(status.code, &status.message, &mut block);
        let flags = frame::END_HEADERS | frame::END_STREAM;
        frame::head(block.len(), frame::HEADERS, flags, stream, &mut self.output);
        self.output.extend_from_slice(&block);
        if !remote_closed {
            // Tells the caller that it need not send the rest.
            self.reset(stream, remote_closed, Code::None);
        }
    }

    /// Counts the memory of a call's answers that cannot leave yet. If there is too little, the call ends. Returns whether the
    /// call goes on.
    pub(super) fn hold(&mut self, stream: u32) -> bool {
        let Some(call) = self.calls.get_mut(&stream) else { return false };
        if call.hold(&self.shared.options.memory).is_some() {
            return true;
        }
        tracing::debug!("A stream ends: the answers that wait take too much memory.");
        self.abort(stream, Code::EnhanceYourCalm, RESOURCE_EXHAUSTED);
        false
    }

    /// Lists a call that has more to send: for its next turn, which comes after the others, or for the connection's window.
    /// For its own window, it waits in no list.
    fn list(&mut self, stream: u32) {
        let Some(call) = self.calls.get_mut(&stream) else { return };
        let list = if self.output.len() >= MAX_FILLED {
            &mut self.ready
        } else if call.window > 0 {
            &mut self.starved
        } else {
            return;
        };
        call.listed = true;
        list.push_back(stream);
    }
}
