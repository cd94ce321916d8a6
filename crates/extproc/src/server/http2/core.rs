//! The state machine of one HTTP/2 connection with gRPC calls. It has no socket: it takes bytes and returns bytes.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    task::{Context, Wake, Waker},
    time::Duration,
};

use longboat_accept::Budget;
use parking_lot::Mutex;

use super::{
    frame::{self, Code, HEAD, Head, MAX_FRAME, PREFACE},
    hpack::{self, Decoder},
    stream::{Call, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, Status, UNAVAILABLE, UNIMPLEMENTED},
};
use crate::{
    client::{CONNECTION_WINDOW, STREAM_WINDOW},
    server::{Exchange, MAX_FIELDS, MAX_STREAMS, PATH, Processor, Shared, TOO_MANY},
};

/// The initial window of every peer.
const FIRST_WINDOW: u32 = 65_535;
/// The largest window that HTTP/2 allows.
const LARGEST_WINDOW: i64 = 0x7fff_ffff;
/// With this many bytes in the output, no further messages are encoded.
const ENOUGH: usize = 128 << 10;
/// With this many bytes in the output, the peer has exceeded its limit: only answers to its own frames can add up to so
/// many.
const MAX_OUTPUT: usize = 1 << 20;
/// The most frames between two looks at the timers that do not serve a call: settings, pings, resets, empty data. Each frame
/// of a call outweighs `USEFUL` of them. A proxy sends a few, and one that only sends these is cut off.
const MAX_IDLE_FRAMES: u32 = 10_000;
const USEFUL: u32 = 2;
/// How many idle frames a reset weighs: more than the headers that opened its call.
const RESET: u32 = 3;
/// The most entries in a list of calls, before those of calls that have ended are removed.
const MAX_LISTED: usize = 2 * MAX_STREAMS as usize;
/// The payloads of pings: at the end of a connection, and to a silent peer.
const LEAVING: [u8; 8] = [0; 8];
const THERE: [u8; 8] = [1; 8];
/// The largest header block that spans several frames.
const MAX_BLOCK: usize = 64 << 10;

/// A connection error, with the code for the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failed(pub(super) Code);

/// The progress of the connection's shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    No,
    /// The peer was told, but calls that it has already sent are still accepted.
    Told,
    /// New calls are refused.
    Refusing,
}

/// The state of a connection.
pub(super) struct Core<P: Processor> {
    shared: Arc<Shared<P>>,
    decoder: Decoder,
    calls: BTreeMap<u32, Call<P::Exchange>>,
    /// Calls that have something to send, in sending order. A call that waits for its own window is in no list.
    ready: VecDeque<u32>,
    /// Calls that wait for the connection's window.
    starved: VecDeque<u32>,
    /// The frames since the last look that did not serve a call.
    idle_frames: u32,
    /// The wakers of calls that wait for something other than their caller.
    waiting: BTreeMap<u32, Waker>,
    woken: Arc<Woken>,
    /// The bytes to write.
    output: Vec<u8>,
    preface: bool,
    /// A header block that continues in further frames: the stream, whether the stream ends with it, and the block so far.
    block: Option<(u32, bool, Vec<u8>)>,
    last: u32,
    /// The send windows: of the connection, and of a new call.
    window: i64,
    call_window: i64,
    frame_limit: usize,
    /// Received bytes for which the peer has not got new window yet.
    owed: u32,
    leaving: Leaving,
    /// How often a call was looked at for something to send.
    #[cfg(test)]
    pub(super) visits: usize,
}

/// The calls whose wait is over.
#[derive(Default)]
struct Woken {
    calls: Mutex<Vec<u32>>,
    connection: futures::task::AtomicWaker,
}

struct CallWaker {
    call: u32,
    woken: Arc<Woken>,
}

impl Wake for CallWaker {
    fn wake(self: Arc<Self>) {
        self.woken.calls.lock().push(self.call);
        self.woken.connection.wake();
    }
}

impl<P: Processor> Core<P> {
    pub(super) fn new(shared: Arc<Shared<P>>) -> Self {
        let mut output = Vec::new();
        // The settings: concurrent streams, their window, and the longest list of fields.
        frame::settings(&[(3, MAX_STREAMS), (4, STREAM_WINDOW), (6, MAX_FIELDS)], &mut output);
        frame::window_update(0, CONNECTION_WINDOW - FIRST_WINDOW, &mut output);
        Self {
            shared,
            decoder: Decoder::default(),
            calls: BTreeMap::new(),
            ready: VecDeque::new(),
            starved: VecDeque::new(),
            idle_frames: 0,
            waiting: BTreeMap::new(),
            woken: Arc::default(),
            output,
            preface: false,
            block: None,
            last: 0,
            window: i64::from(FIRST_WINDOW),
            call_window: i64::from(FIRST_WINDOW),
            frame_limit: MAX_FRAME,
            owed: 0,
            leaving: Leaving::No,
            #[cfg(test)]
            visits: 0,
        }
    }

    /// Processes the complete frames at the start of the input. Returns the number of bytes that were processed.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<usize, Failed> {
        let mut taken = 0;
        if !self.preface {
            let length = bytes.len().min(PREFACE.len());
            if bytes[..length] != PREFACE[..length] {
                return Err(Failed(Code::Protocol));
            }
            if length < PREFACE.len() {
                return Ok(0);
            }
            self.preface = true;
            taken = length;
        }
        while let Some(head) = bytes[taken..].first_chunk::<HEAD>() {
            let head = Head::read(*head);
            if head.length > MAX_FRAME {
                return Err(Failed(Code::FrameSize));
            }
            let Some(payload) = bytes[taken + HEAD..].get(..head.length) else { break };
            self.frame(head, payload)?;
            taken += HEAD + head.length;
            if self.output.len() > MAX_OUTPUT {
                return Err(Failed(Code::EnhanceYourCalm));
            }
        }
        Ok(taken)
    }

    fn frame(&mut self, head: Head, payload: &[u8]) -> Result<(), Failed> {
        if self.block.is_some() && head.kind != frame::CONTINUATION {
            return Err(Failed(Code::Protocol));
        }
        let serves = head.kind == frame::HEADERS || (head.kind == frame::DATA && !payload.is_empty());
        if serves || (head.kind == frame::DATA && head.has(frame::END_STREAM)) {
            self.idle_frames = self.idle_frames.saturating_sub(USEFUL);
        } else {
            self.idle_frames += if head.kind == frame::RST_STREAM { RESET } else { 1 };
            if self.idle_frames > MAX_IDLE_FRAMES {
                return Err(Failed(Code::EnhanceYourCalm));
            }
        }
        // These frames are about the connection.
        if matches!(head.kind, frame::SETTINGS | frame::PING | frame::GOAWAY) && head.stream != 0 {
            return Err(Failed(Code::Protocol));
        }
        match head.kind {
            frame::DATA => self.data(head, payload),
            frame::HEADERS => self.headers(head, payload),
            frame::CONTINUATION => self.continuation(head, payload),
            frame::RST_STREAM => {
                if head.stream == 0 || head.stream > self.last || payload.len() != 4 {
                    return Err(Failed(Code::Protocol));
                }
                self.forget(head.stream);
                Ok(())
            }
            frame::SETTINGS => self.settings(head, payload),
            frame::PING => {
                let Ok(payload) = <[u8; 8]>::try_from(payload) else { return Err(Failed(Code::FrameSize)) };
                if head.has(frame::ACK) {
                    // Only the answer to this payload says that no more calls are on their way.
                    if payload == LEAVING {
                        self.ponged();
                    }
                } else {
                    frame::head(8, frame::PING, frame::ACK, 0, &mut self.output);
                    self.output.extend_from_slice(&payload);
                }
                Ok(())
            }
            frame::WINDOW_UPDATE => self.window_update(head, payload),
            frame::PUSH_PROMISE => Err(Failed(Code::Protocol)),
            // Priorities are only hints, but must be well-formed.
            frame::PRIORITY => {
                let Ok([a, b, c, d, _]) = <[u8; 5]>::try_from(payload) else {
                    return Err(Failed(Code::FrameSize));
                };
                let parent = u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff;
                if parent == head.stream { Err(Failed(Code::Protocol)) } else { Ok(()) }
            }
            // A peer that goes away closes the connection. The standard says to ignore unknown frames.
            _ => Ok(()),
        }
    }

    fn data(&mut self, head: Head, payload: &[u8]) -> Result<(), Failed> {
        if head.stream == 0 || head.stream > self.last {
            return Err(Failed(Code::Protocol));
        }
        let received = u32::try_from(head.length).unwrap_or_default();
        let bytes = unpadded(head, payload)?;
        let longest = self.shared.options.max_receive_bytes;
        // The connection's window is always restored: a call whose answers wait blocks its own caller, but no other call.
        self.owe(received);
        // Without a call, the stream has ended on this side, which the peer does not know yet.
        let Some(call) = self.calls.get_mut(&head.stream) else { return Ok(()) };
        if call.remote_closed {
            return Err(Failed(Code::Protocol));
        }
        call.owed += received;
        if call.owed > STREAM_WINDOW {
            return Err(Failed(Code::FlowControl));
        }
        call.remote_closed = head.has(frame::END_STREAM);
        call.receive(bytes, longest, &self.shared.options.memory);
        self.after(head.stream);
        Ok(())
    }

    fn headers(&mut self, head: Head, payload: &[u8]) -> Result<(), Failed> {
        let mut block = unpadded(head, payload)?;
        if head.has(frame::WITH_PRIORITY) {
            block = block.get(5..).ok_or(Failed(Code::Protocol))?;
        }
        // Streams that clients open have odd numbers.
        if head.stream.is_multiple_of(2) {
            return Err(Failed(Code::Protocol));
        }
        let ends = head.has(frame::END_STREAM);
        if head.has(frame::END_HEADERS) {
            return self.open(head.stream, ends, block);
        }
        self.block = Some((head.stream, ends, block.to_vec()));
        Ok(())
    }

    fn continuation(&mut self, head: Head, payload: &[u8]) -> Result<(), Failed> {
        let Some((stream, ends, mut block)) = self.block.take() else { return Err(Failed(Code::Protocol)) };
        if stream != head.stream {
            return Err(Failed(Code::Protocol));
        }
        if block.len() + payload.len() > MAX_BLOCK {
            return Err(Failed(Code::EnhanceYourCalm));
        }
        block.extend_from_slice(payload);
        if head.has(frame::END_HEADERS) {
            return self.open(stream, ends, &block);
        }
        self.block = Some((stream, ends, block));
        Ok(())
    }

    /// Handles the headers of a new call, or trailers.
    fn open(&mut self, stream: u32, ends: bool, block: &[u8]) -> Result<(), Failed> {
        let (mut process, mut gzip) = (false, false);
        let fields = self.decoder.decode(block, |name, value| match name {
            b":path" => process = value == PATH.as_bytes(),
            b"grpc-encoding" => gzip = value == b"gzip",
            _ => {}
        });
        fields.map_err(|hpack::Broken| Failed(Code::Compression))?;
        if stream <= self.last {
            if let Some(call) = self.calls.get_mut(&stream) {
                call.remote_closed |= ends;
                call.settle();
                self.after(stream);
            }
            return Ok(());
        }
        self.last = stream;
        if self.leaving == Leaving::Refusing || self.calls.len() >= MAX_STREAMS as usize {
            frame::reset(stream, Code::RefusedStream, &mut self.output);
            return Ok(());
        }
        if !process {
            self.refuse(stream, ends, &Status::new(UNIMPLEMENTED, "no such method"));
        } else if !self.shared.processor.is_ready() {
            self.refuse(stream, ends, &Status::new(UNAVAILABLE, "not ready yet"));
        } else if let Some(counted) = self.shared.stream_count.take(self.shared.options.limits.streams) {
            let mut call = Call::new(self.shared.processor.open(), gzip, self.call_window, counted);
            call.remote_closed = ends;
            call.settle();
            self.calls.insert(stream, call);
            self.after(stream);
        } else {
            self.refuse(stream, ends, &Status::new(UNAVAILABLE, TOO_MANY));
        }
        Ok(())
    }

    /// Answers a request that is not a valid call.
    fn refuse(&mut self, stream: u32, remote_closed: bool, status: &Status) {
        self.end(stream, false, remote_closed, status);
    }

    fn end(&mut self, stream: u32, answered: bool, remote_closed: bool, status: &Status) {
        let mut block = if answered { Vec::new() } else { hpack::RESPONSE.to_vec() };
        hpack::trailers(status.code, &status.message, &mut block);
        let flags = frame::END_HEADERS | frame::END_STREAM;
        frame::head(block.len(), frame::HEADERS, flags, stream, &mut self.output);
        self.output.extend_from_slice(&block);
        if !remote_closed {
            // Tells the caller that it need not send the rest.
            frame::reset(stream, Code::None, &mut self.output);
        }
    }

    /// Called after input for a call: polls the exchange if it waits for something, and lists the call if it has something
    /// to send.
    fn after(&mut self, stream: u32) {
        let Some(call) = self.calls.get_mut(&stream) else { return };
        if call.end.is_none() && call.exchange.waits() {
            let woken = &self.woken;
            let waker = self.waiting.entry(stream).or_insert_with(|| {
                Waker::from(Arc::new(CallWaker { call: stream, woken: Arc::clone(woken) }))
            });
            let mut context = Context::from_waker(waker);
            call.exchange.poll(&mut context, &mut call.out);
            call.settle();
        }
        let sends = call.end.is_some() || !call.out.queue.is_empty() || call.sent < call.sending.len();
        if sends && !call.listed {
            call.listed = true;
            self.ready.push_back(stream);
        }
        // The output goes first, so these answers may wait for a peer that does not read.
        if sends && self.output.len() >= ENOUGH && !self.hold(stream) {
            return;
        }
        self.give_back(stream);
    }

    /// Polls the calls whose wait is over, and registers the connection's waker for the next ones.
    pub(super) fn poll(&mut self, context: &Context<'_>) {
        self.woken.connection.register(context.waker());
        let woken = std::mem::take(&mut *self.woken.calls.lock());
        for stream in woken {
            self.after(stream);
        }
    }

    /// Restores a call's receive window, unless its answers wait for its caller. So one call holds at most its window of them.
    fn give_back(&mut self, stream: u32) {
        let Some(call) = self.calls.get_mut(&stream) else { return };
        // Small requests end before half of the window is used, so they need no such frame at all.
        if call.owed > STREAM_WINDOW / 2 && !call.remote_closed && call.waiting.is_none() {
            frame::window_update(stream, call.owed, &mut self.output);
            call.owed = 0;
        }
    }

    fn owe(&mut self, bytes: u32) {
        self.owed += bytes;
        if self.owed > CONNECTION_WINDOW / 2 {
            frame::window_update(0, self.owed, &mut self.output);
            self.owed = 0;
        }
    }

    fn forget(&mut self, stream: u32) {
        self.calls.remove(&stream);
        self.waiting.remove(&stream);
        // Calls that have ended leave the lists at their turn, or here if their turns do not come.
        for list in [&mut self.ready, &mut self.starved] {
            if list.len() > MAX_LISTED {
                list.retain(|stream| self.calls.contains_key(stream));
            }
        }
    }

    fn settings(&mut self, head: Head, payload: &[u8]) -> Result<(), Failed> {
        if head.has(frame::ACK) {
            return if payload.is_empty() { Ok(()) } else { Err(Failed(Code::FrameSize)) };
        }
        if !payload.len().is_multiple_of(6) {
            return Err(Failed(Code::FrameSize));
        }
        // Of a value that comes several times, the last one counts. So a frame changes the windows once.
        let mut window = None;
        for setting in payload.chunks_exact(6) {
            let [a, b, value @ ..] = setting else { continue };
            let value = value.iter().fold(0_u32, |value, byte| (value << 8) | u32::from(*byte));
            match u16::from_be_bytes([*a, *b]) {
                2 if value > 1 => return Err(Failed(Code::Protocol)),
                4 if i64::from(value) > LARGEST_WINDOW => return Err(Failed(Code::FlowControl)),
                4 => window = Some(i64::from(value)),
                5 if (MAX_FRAME..1 << 24).contains(&(value as usize)) => self.frame_limit = value as usize,
                5 => return Err(Failed(Code::Protocol)),
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

    /// Changes the windows of all calls, of which there are at most [`MAX_STREAMS`].
    fn change_windows(&mut self, window: i64) -> Result<(), Failed> {
        let change = window - self.call_window;
        self.call_window = window;
        for (&stream, call) in &mut self.calls {
            call.window += change;
            if call.window > LARGEST_WINDOW {
                return Err(Failed(Code::FlowControl));
            }
            // A call whose answers wait may have waited for this.
            if call.waiting.is_some() && call.window > 0 && !call.listed {
                call.listed = true;
                self.ready.push_back(stream);
            }
        }
        Ok(())
    }

    fn window_update(&mut self, head: Head, payload: &[u8]) -> Result<(), Failed> {
        let Ok(bytes) = <[u8; 4]>::try_from(payload) else { return Err(Failed(Code::FrameSize)) };
        let more = i64::from(u32::from_be_bytes(bytes) & 0x7fff_ffff);
        if more == 0 {
            return Err(Failed(Code::Protocol));
        }
        if head.stream == 0 {
            self.window += more;
            return if self.window > LARGEST_WINDOW { Err(Failed(Code::FlowControl)) } else { Ok(()) };
        }
        if head.stream > self.last {
            return Err(Failed(Code::Protocol));
        }
        if let Some(call) = self.calls.get_mut(&head.stream) {
            call.window += more;
            if call.window > LARGEST_WINDOW {
                return Err(Failed(Code::FlowControl));
            }
            self.after(head.stream);
        }
        Ok(())
    }

    /// Encodes messages of the calls, as far as windows and the size of the output allow.
    pub(super) fn fill(&mut self) {
        let longest = self.shared.options.max_send_bytes;
        while self.output.len() < ENOUGH {
            // A starved call can only go on when the connection has a window, and then it sends something.
            let starved = if self.window > 0 { self.starved.pop_front() } else { None };
            let Some(stream) = starved.or_else(|| self.ready.pop_front()) else { return };
            let Some(call) = self.calls.get_mut(&stream) else { continue };
            call.listed = false;
            #[cfg(test)]
            {
                self.visits += 1;
            }
            while self.output.len() < ENOUGH && call.load(longest) {
                let rest = call.sending.len() - call.sent;
                let allowed = usize::try_from(call.window.min(self.window)).unwrap_or_default();
                let part = rest.min(allowed).min(self.frame_limit);
                if part == 0 {
                    break;
                }
                if !call.answered {
                    call.answered = true;
                    frame::head(
                        hpack::RESPONSE.len(),
                        frame::HEADERS,
                        frame::END_HEADERS,
                        stream,
                        &mut self.output,
                    );
                    self.output.extend_from_slice(hpack::RESPONSE);
                }
                frame::head(part, frame::DATA, 0, stream, &mut self.output);
                self.output.extend_from_slice(&call.sending[call.sent..call.sent + part]);
                call.sent += part;
                let sent = i64::try_from(part).unwrap_or(i64::MAX);
                call.window -= sent;
                self.window -= sent;
                self.idle_frames = self.idle_frames.saturating_sub(USEFUL);
            }
            let done = call.out.queue.is_empty() && call.sent == call.sending.len();
            if done && let Some(status) = call.end.take() {
                let (answered, remote_closed) = (call.answered, call.remote_closed);
                call.exchange.ended(status.code);
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
            if call.sending.capacity() > MAX_FRAME {
                call.sending = Vec::new();
                call.sent = 0;
            }
            self.give_back(stream);
        }
    }

    /// Counts the memory of a call's answers that cannot leave yet. If there is too little, the call ends. Returns whether the
    /// call goes on.
    fn hold(&mut self, stream: u32) -> bool {
        let Some(call) = self.calls.get_mut(&stream) else { return false };
        if call.hold(&self.shared.options.memory).is_some() {
            return true;
        }
        tracing::debug!("A stream ends: the answers that wait take too much memory.");
        call.exchange.ended(RESOURCE_EXHAUSTED);
        frame::reset(stream, Code::EnhanceYourCalm, &mut self.output);
        self.forget(stream);
        false
    }

    /// Lists a call that has more to send: for its next turn, which comes after the others, or for the connection's window.
    /// For its own window, it waits in no list.
    fn list(&mut self, stream: u32) {
        let Some(call) = self.calls.get_mut(&stream) else { return };
        let list = if self.output.len() >= ENOUGH {
            &mut self.ready
        } else if call.window > 0 {
            &mut self.starved
        } else {
            return;
        };
        call.listed = true;
        list.push_back(stream);
    }

    /// Whether more messages can be encoded once the output is written.
    pub(super) fn can_fill(&self) -> bool {
        !self.ready.is_empty() || (self.window > 0 && !self.starved.is_empty())
    }

    /// Returns the memory of all connections.
    pub(super) fn memory(&self) -> &Arc<Budget> {
        &self.shared.options.memory
    }

    /// Returns the bytes to write.
    pub(super) fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Tells the peer not to open new calls.
    pub(super) fn leave(&mut self) {
        if self.leaving == Leaving::No {
            self.leaving = Leaving::Told;
            // Calls that the peer sends before it answers the ping are still accepted.
            frame::goaway(0x7fff_ffff, Code::None, &mut self.output);
            frame::head(8, frame::PING, 0, 0, &mut self.output);
            self.output.extend_from_slice(&LEAVING);
        }
    }

    /// Asks the peer whether it is still there.
    pub(super) fn ping(&mut self) {
        frame::head(8, frame::PING, 0, 0, &mut self.output);
        self.output.extend_from_slice(&THERE);
    }

    /// Returns the number of open calls.
    pub(super) fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Returns the number of calls that were ever opened, or refused.
    pub(super) fn opened(&self) -> u64 {
        u64::from(self.last.div_ceil(2))
    }

    /// Ends calls that have waited too long for their first message. `passed` is the time since the last look.
    pub(super) fn expire(&mut self, passed: Duration, limit: Duration) {
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
        for stream in late {
            self.after(stream);
        }
    }

    fn ponged(&mut self) {
        if self.leaving == Leaving::Told {
            self.leaving = Leaving::Refusing;
            frame::goaway(self.last, Code::None, &mut self.output);
        }
    }

    /// Whether the shutdown is complete.
    pub(super) fn is_done(&self) -> bool {
        self.leaving == Leaving::Refusing && self.calls.is_empty()
    }

    /// Tells the peer the error that ends the connection.
    pub(super) fn fail(&mut self, Failed(code): Failed) {
        frame::goaway(self.last, code, &mut self.output);
        self.calls.clear();
        self.waiting.clear();
    }
}

/// Returns a payload without its padding.
fn unpadded(head: Head, payload: &[u8]) -> Result<&[u8], Failed> {
    if !head.has(frame::PADDED) {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().ok_or(Failed(Code::Protocol))?;
    let length = rest.len().checked_sub(usize::from(*padding)).ok_or(Failed(Code::Protocol))?;
    Ok(&rest[..length])
}
