//! The calls of a connection and the states of its streams (RFC 9113, section 5.1).

use std::task::Context;

use super::{ConnectionError, Core, MAX_FILLED, lifecycle::Shutdown, unpadded};
use crate::{
    server::{
        Exchange, Processor,
        http2::{
            fields::{Fields, Path},
            frame::{self, Code, Head},
            hpack,
            stream::{Call, INTERNAL, Method, Status, UNAVAILABLE, UNIMPLEMENTED},
        },
        limits::{MAX_STREAMS, TOO_MANY_STREAMS},
    },
    windows::STREAM_WINDOW,
};

/// The most entries in a list of calls, before those of calls that have ended are removed.
const MAX_LISTED: usize = 2 * MAX_STREAMS as usize;

impl<P: Processor> Core<P> {
    /// Whether no stream with this number was opened. Clients open streams with odd numbers, in their order.
    pub(super) fn is_idle(&self, stream: u32) -> bool {
        stream > self.last || stream.is_multiple_of(2)
    }

    pub(super) fn data(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        if self.is_idle(head.stream) {
            return Err(ConnectionError(Code::Protocol));
        }
        let received = u32::try_from(head.length).unwrap_or_default();
        let ends = head.has(frame::END_STREAM);
        let bytes = unpadded(head, payload)?;
        // Also padding, and data of a stream that has ended: both count against the windows (RFC 9113, sections 6.1 and 6.9).
        self.received(received);
        let longest = self.shared.options.max_receive_bytes;
        let Some(call) = self.calls.get_mut(&head.stream) else {
            if !self.is_locally_closed(head.stream, ends) {
                self.idle(super::IDLE_FRAMES_PER_CALL_FRAME + 1)?;
                frame::reset(head.stream, Code::StreamClosed, &mut self.output);
            }
            return Ok(());
        };
        if call.remote_closed {
            self.abort(head.stream, Code::StreamClosed, INTERNAL);
            return Ok(());
        }
        call.owed += received;
        if call.owed > STREAM_WINDOW {
            return Err(ConnectionError(Code::FlowControl));
        }
        call.remote_closed = ends;
        if !call.counts(bytes.len()) {
            self.abort(head.stream, Code::Protocol, INTERNAL);
            return Ok(());
        }
        // After an error, the next bytes may begin in the middle of a message.
        if call.end.is_none() {
            call.receive(bytes, longest, &self.shared.options.memory);
        }
        self.after(head.stream);
        Ok(())
    }

    pub(super) fn reset_received(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        if payload.len() != 4 {
            return Err(ConnectionError(Code::FrameSize));
        }
        if self.is_idle(head.stream) {
            return Err(ConnectionError(Code::Protocol));
        }
        if self.calls.contains_key(&head.stream) {
            self.forget(head.stream);
        } else {
            // Now the peer has closed it, too, so nothing more can come for it.
            self.is_locally_closed(head.stream, true);
        }
        Ok(())
    }

    /// Handles a header block: the headers of a new call, or trailers.
    pub(super) fn open(&mut self, stream: u32, ends: bool, block: &[u8]) -> Result<(), ConnectionError> {
        let mut fields = Fields::default();
        // A block is decoded even if its stream has ended, because it may change the decoder's table.
        let decoded = self.decoder.decode(block, |name, value| fields.read(name, value));
        decoded.map_err(|hpack::DecodeError| ConnectionError(Code::Compression))?;
        if stream <= self.last {
            return self.trailers(stream, ends, &fields);
        }
        // A stream that is refused was opened, too (section 5.1.1).
        self.last = stream;
        let health = match fields.path {
            Path::Health => self.shared.options.health.clone(),
            Path::Process | Path::Other => None,
        };
        if !fields.is_request() {
            self.reset(stream, ends, Code::Protocol);
        } else if self.shutdown == Shutdown::Refusing || self.calls.len() >= MAX_STREAMS as usize {
            self.reset(stream, ends, Code::RefusedStream);
        } else if health.is_none() && !(fields.path == Path::Process && self.shared.processor.exists()) {
            self.end(stream, false, ends, &Status::new(UNIMPLEMENTED, "no such method"));
        } else if health.is_none() && !self.shared.processor.is_ready() {
            self.end(stream, false, ends, &Status::new(UNAVAILABLE, "not ready yet"));
        } else if let Some(counted) = self.shared.stream_count.take(self.shared.options.limits.streams) {
            let method = match health {
                Some(check) => Method::Health(check),
                None => Method::Process(self.shared.processor.open()),
            };
            let mut call = Call::new(method, &fields, self.call_window, counted);
            call.remote_closed = ends;
            let counts = call.counts(0);
            self.calls.insert(stream, call);
            if counts {
                self.after(stream);
            } else {
                self.abort(stream, Code::Protocol, INTERNAL);
            }
        } else {
            self.shared.processor.too_many_streams();
            self.end(stream, false, ends, &Status::new(UNAVAILABLE, TOO_MANY_STREAMS));
        }
        Ok(())
    }

    fn trailers(&mut self, stream: u32, ends: bool, fields: &Fields) -> Result<(), ConnectionError> {
        let Some(call) = self.calls.get_mut(&stream) else {
            let closed = self.is_locally_closed(stream, ends);
            return if closed { Ok(()) } else { Err(ConnectionError(Code::StreamClosed)) };
        };
        if call.remote_closed {
            self.abort(stream, Code::StreamClosed, INTERNAL);
            return Ok(());
        }
        call.remote_closed = ends;
        // Trailers that do not end their stream are malformed (section 8.1).
        if ends && fields.is_trailers() && call.counts(0) {
            self.after(stream);
        } else {
            self.abort(stream, Code::Protocol, INTERNAL);
        }
        Ok(())
    }

    /// Resets a stream. If the peer has not closed it, what it still sends is ignored.
    pub(super) fn reset(&mut self, stream: u32, remote_closed: bool, code: Code) {
        frame::reset(stream, code, &mut self.output);
        if !remote_closed {
            // The peer knows of at most so many open streams, so it sends nothing more for the oldest of them.
            if self.locally_closed.len() >= MAX_STREAMS as usize {
                self.locally_closed.pop_front();
            }
            self.locally_closed.push_back(stream);
        }
    }

    /// Whether a stream has ended on this side only, which the peer may not know yet. `ends`: the peer ends it now too.
    fn is_locally_closed(&mut self, stream: u32, ends: bool) -> bool {
        let place = self.locally_closed.iter().position(|closed| *closed == stream);
        if ends && let Some(place) = place {
            self.locally_closed.remove(place);
        }
        place.is_some()
    }

    /// Ends a call with an error of its stream.
    pub(super) fn abort(&mut self, stream: u32, code: Code, status: u8) {
        if let Some(call) = self.calls.get_mut(&stream) {
            call.ended(status);
            let remote_closed = call.remote_closed;
            self.reset(stream, remote_closed, code);
            self.forget(stream);
        }
    }

    pub(super) fn forget(&mut self, stream: u32) {
        self.calls.remove(&stream);
        self.wakers.forget(stream);
        // Calls that have ended leave the lists at their turn, or here if their turns do not come.
        for list in [&mut self.ready, &mut self.starved] {
            if list.len() > MAX_LISTED {
                list.retain(|stream| self.calls.contains_key(stream));
            }
        }
    }

    /// Called after input for a call: polls the exchange if it waits for something, and lists the call if it has something
    /// to send.
    pub(super) fn after(&mut self, stream: u32) {
        let Some(call) = self.calls.get_mut(&stream) else { return };
        if call.end.is_none()
            && let Method::Process(exchange) = &mut call.method
            && exchange.waits()
        {
            let mut context = Context::from_waker(self.wakers.of(stream));
            exchange.poll(&mut context, &mut call.out);
        }
        // Polled first: an answer that is ready leaves before the call ends.
        call.settle();
        let sends = call.end.is_some() || !call.out.is_empty() || call.sent < call.sending.len();
        if sends && !call.listed {
            call.listed = true;
            self.ready.push_back(stream);
        }
        // The output goes first, so these answers may wait for a peer that does not read.
        if sends && self.output.len() >= MAX_FILLED && !self.hold(stream) {
            return;
        }
        self.release_window(stream);
    }

    /// Polls the calls whose wait is over, and registers the connection's waker for the next ones.
    pub(in crate::server::http2) fn poll(&mut self, context: &Context<'_>) {
        for stream in self.wakers.take(context) {
            self.after(stream);
        }
    }
}
