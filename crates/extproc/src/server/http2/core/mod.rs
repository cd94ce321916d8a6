//! The state machine of one HTTP/2 connection with gRPC calls. It has no socket: it takes bytes and returns bytes.
//!
//! This file reads frames. `calls` has the states of streams, `sending` the answers, `windows` the flow control, `lifecycle`
//! the end of the connection, and `wakers` what wakes it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use longboat_accept::Budget;

use super::{
    frame::{self, Code, HEAD, Head, MAX_FRAME, PREFACE},
    hpack::Decoder,
    stream::Call,
};
use crate::{
    server::{
        Processor,
        limits::{MAX_FIELDS, MAX_STREAMS},
        options::ServerState,
    },
    windows::{CONNECTION_WINDOW, STREAM_WINDOW},
};

mod calls;
mod lifecycle;
mod sending;
mod wakers;
mod windows;

use lifecycle::Shutdown;
use wakers::Wakers;
use windows::{INITIAL_WINDOW, MAX_WINDOW};

/// With this many bytes in the output, no further messages are encoded.
const MAX_FILLED: usize = 128 << 10;
/// With this many bytes in the output, the peer has exceeded its limit: only answers to its own frames can add up to so
/// many.
pub(super) const MAX_OUTPUT: usize = 1 << 20;
/// The most frames between two looks at the timers that do not serve a call: settings, pings, resets, empty data. Each frame
/// of a call outweighs `IDLE_FRAMES_PER_CALL_FRAME` of them. A proxy sends a few, and one that only sends these is cut off.
const MAX_IDLE_FRAMES: u32 = 10_000;
const IDLE_FRAMES_PER_CALL_FRAME: u32 = 2;
/// How many idle frames a reset weighs: more than the headers that opened its call.
const RESET: u32 = 3;
/// The largest header block that spans several frames.
const MAX_BLOCK: usize = 64 << 10;

/// A connection error, with the code for the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConnectionError(pub(super) Code);

/// The state of a connection.
pub(super) struct Core<P: Processor> {
    shared: Arc<ServerState<P>>,
    decoder: Decoder,
    calls: BTreeMap<u32, Call<P::Exchange>>,
    /// Calls that have something to send, in sending order. A call that waits for its own window is in no list.
    ready: VecDeque<u32>,
    /// Calls that wait for the connection's window.
    starved: VecDeque<u32>,
    /// The last streams that this side has ended, and for which the peer may still send.
    locally_closed: VecDeque<u32>,
    /// The frames since the last look that did not serve a call.
    idle_frames: u32,
    wakers: Wakers,
    /// The bytes to write.
    output: Vec<u8>,
    preface: bool,
    /// A header block that continues in further frames: the stream, whether the stream ends with it, and the block so far.
    block: Option<(u32, bool, Vec<u8>)>,
    /// The last stream that the peer has opened.
    last: u32,
    /// The send windows: of the connection, and of a new call.
    window: i64,
    call_window: i64,
    frame_limit: usize,
    /// Received bytes for which the peer has not got new window yet.
    owed: u32,
    shutdown: Shutdown,
    /// How often a call was looked at: for something to send, or for a new window.
    #[cfg(test)]
    pub(super) visits: usize,
}

impl<P: Processor> Core<P> {
    pub(super) fn new(shared: Arc<ServerState<P>>) -> Self {
        let mut output = Vec::new();
        // The settings: concurrent streams, their window, and the longest list of fields.
        frame::settings(&[(3, MAX_STREAMS), (4, STREAM_WINDOW), (6, MAX_FIELDS)], &mut output);
        frame::window_update(0, CONNECTION_WINDOW - INITIAL_WINDOW, &mut output);
        Self {
            shared,
            decoder: Decoder::default(),
            calls: BTreeMap::new(),
            ready: VecDeque::new(),
            starved: VecDeque::new(),
            locally_closed: VecDeque::new(),
            idle_frames: 0,
            wakers: Wakers::default(),
            output,
            preface: false,
            block: None,
            last: 0,
            window: i64::from(INITIAL_WINDOW),
            call_window: i64::from(INITIAL_WINDOW),
            frame_limit: MAX_FRAME,
            owed: 0,
            shutdown: Shutdown::No,
            #[cfg(test)]
            visits: 0,
        }
    }

    /// Processes the complete frames at the start of the input. Returns the number of bytes that were processed.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<usize, ConnectionError> {
        let mut taken = 0;
        if !self.preface {
            let length = bytes.len().min(PREFACE.len());
            if bytes[..length] != PREFACE[..length] {
                return Err(ConnectionError(Code::Protocol));
            }
            if length < PREFACE.len() {
                return Ok(0);
            }
            self.preface = true;
            taken = length;
        }
        while let Some(head) = bytes[taken..].first_chunk::<HEAD>() {
            let head = Head::read(*head);
            // Before the payload has come: a longer frame does not fit into the buffer.
            if head.length > MAX_FRAME {
                return Err(ConnectionError(Code::FrameSize));
            }
            let Some(payload) = bytes[taken + HEAD..].get(..head.length) else { break };
            self.frame(head, payload)?;
            taken += HEAD + head.length;
            if self.output.len() > MAX_OUTPUT {
                return Err(ConnectionError(Code::EnhanceYourCalm));
            }
        }
        Ok(taken)
    }

    fn frame(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        // Nothing may come between the parts of a header block (section 6.10).
        if self.block.is_some() && head.kind != frame::CONTINUATION {
            return Err(ConnectionError(Code::Protocol));
        }
        let serves = head.kind == frame::HEADERS || (head.kind == frame::DATA && !payload.is_empty());
        if serves || (head.kind == frame::DATA && head.has(frame::END_STREAM)) {
            self.idle_frames = self.idle_frames.saturating_sub(IDLE_FRAMES_PER_CALL_FRAME);
        } else {
            self.idle(if head.kind == frame::RST_STREAM { RESET } else { 1 })?;
        }
        // These frames are about the connection.
        if matches!(head.kind, frame::SETTINGS | frame::PING | frame::GOAWAY) && head.stream != 0 {
            return Err(ConnectionError(Code::Protocol));
        }
        match head.kind {
            frame::DATA => self.data(head, payload),
            frame::HEADERS => self.headers(head, payload),
            frame::CONTINUATION => self.continuation(head, payload),
            frame::RST_STREAM => self.reset_received(head, payload),
            frame::SETTINGS => self.settings(head, payload),
            frame::PING => {
                let Ok(payload) = <[u8; 8]>::try_from(payload) else {
                    return Err(ConnectionError(Code::FrameSize));
                };
                if head.has(frame::ACK) {
                    self.ping_answered(payload);
                } else {
                    frame::ping(frame::ACK, payload, &mut self.output);
                }
                Ok(())
            }
            frame::WINDOW_UPDATE => self.window_update(head, payload),
            frame::PUSH_PROMISE => Err(ConnectionError(Code::Protocol)),
            frame::PRIORITY if payload.len() != frame::PRIORITY_LENGTH => {
                Err(ConnectionError(Code::FrameSize))
            }
            frame::PRIORITY => check_priority(head, payload),
            // A peer that goes away closes the connection. The standard says to ignore unknown frames.
            _ => Ok(()),
        }
    }

    /// Counts a frame that serves no call.
    fn idle(&mut self, weight: u32) -> Result<(), ConnectionError> {
        self.idle_frames += weight;
        if self.idle_frames > MAX_IDLE_FRAMES { Err(ConnectionError(Code::EnhanceYourCalm)) } else { Ok(()) }
    }

    fn headers(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        let mut block = unpadded(head, payload)?;
        if head.has(frame::WITH_PRIORITY) {
            check_priority(head, block)?;
            block = &block[frame::PRIORITY_LENGTH..];
        }
        // Streams that clients open have odd numbers.
        if head.stream.is_multiple_of(2) {
            return Err(ConnectionError(Code::Protocol));
        }
        let ends = head.has(frame::END_STREAM);
        if head.has(frame::END_HEADERS) {
            return self.open(head.stream, ends, block);
        }
        self.block = Some((head.stream, ends, block.to_vec()));
        Ok(())
    }

    fn continuation(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        let Some((stream, ends, mut block)) = self.block.take() else {
            return Err(ConnectionError(Code::Protocol));
        };
        if stream != head.stream {
            return Err(ConnectionError(Code::Protocol));
        }
        if block.len() + payload.len() > MAX_BLOCK {
            return Err(ConnectionError(Code::EnhanceYourCalm));
        }
        block.extend_from_slice(payload);
        if head.has(frame::END_HEADERS) {
            return self.open(stream, ends, &block);
        }
        self.block = Some((stream, ends, block));
        Ok(())
    }

    fn settings(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        if head.has(frame::ACK) {
            return if payload.is_empty() { Ok(()) } else { Err(ConnectionError(Code::FrameSize)) };
        }
        if !payload.len().is_multiple_of(6) {
            return Err(ConnectionError(Code::FrameSize));
        }
        // Of a value that comes several times, the last one counts. So a frame changes the windows once.
        let mut window = None;
        for setting in payload.chunks_exact(6) {
            let [a, b, value @ ..] = setting else { continue };
            let value = value.iter().fold(0_u32, |value, byte| (value << 8) | u32::from(*byte));
            match u16::from_be_bytes([*a, *b]) {
                2 if value > 1 => return Err(ConnectionError(Code::Protocol)),
                4 if i64::from(value) > MAX_WINDOW => return Err(ConnectionError(Code::FlowControl)),
                4 => window = Some(i64::from(value)),
                5 if (MAX_FRAME..1 << 24).contains(&(value as usize)) => self.frame_limit = value as usize,
                5 => return Err(ConnectionError(Code::Protocol)),
                // The server never adds entries to the peer's HPACK table, never pushes, and sends few fields.
                _ => {}
            }
        }
        if let Some(window) = window.filter(|window| *window != self.call_window) {
            self.change_windows(window)?;
        }
        frame::head(0, frame::SETTINGS, frame::ACK, 0, &mut self.output);
        Ok(())
    }

    /// Returns the memory of all connections.
    pub(super) fn memory(&self) -> &Arc<Budget> {
        &self.shared.options.memory
    }

    /// Returns the bytes to write.
    pub(super) fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Returns the number of open calls.
    pub(super) fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Returns the number of calls that were ever opened, or refused.
    pub(super) fn opened(&self) -> u64 {
        u64::from(self.last.div_ceil(2))
    }
}

/// Checks a priority at the start of a payload. It is only a hint, but must be well-formed.
fn check_priority(head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
    let Some([a, b, c, d, _]) = payload.first_chunk::<{ frame::PRIORITY_LENGTH }>() else {
        return Err(ConnectionError(Code::FrameSize));
    };
    let parent = u32::from_be_bytes([*a, *b, *c, *d]) & 0x7fff_ffff;
    if parent == head.stream { Err(ConnectionError(Code::Protocol)) } else { Ok(()) }
}

/// Returns a payload without its padding.
fn unpadded(head: Head, payload: &[u8]) -> Result<&[u8], ConnectionError> {
    if !head.has(frame::PADDED) {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().ok_or(ConnectionError(Code::Protocol))?;
    let length = rest.len().checked_sub(usize::from(*padding)).ok_or(ConnectionError(Code::Protocol))?;
    Ok(&rest[..length])
}
