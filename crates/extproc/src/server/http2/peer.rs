//! A peer that sends any frames that fit the state of the connection, for fuzzing.

use std::{
    collections::BTreeMap,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use longboat_accept::Budget;
use prost::Message;

use super::{
    core::{Core, MAX_OUTPUT},
    frame::{self, HEAD, Head, MAX_FRAME},
};
use crate::{
    headers::{HeaderChanges, Headers},
    message::{Action, Event, Incoming, MAX_BODY_CHUNK},
    server::{Exchange, Outbox, PATH, Processor, ServerOptions, options::ServerState},
    windows::{CONNECTION_WINDOW, STREAM_WINDOW},
};

/// A processor that sends bodies back.
pub(super) struct Echo;

impl Processor for Echo {
    type Exchange = Self;

    fn open(&self) -> Self {
        Self
    }
}

impl Exchange for Echo {
    fn handle(&mut self, incoming: Incoming, out: &mut Outbox) {
        match incoming.event {
            Event::RequestBody { body, end_of_stream } => {
                out.push(Action::RequestBody { body, end_of_stream });
            }
            Event::ResponseBody { body, end_of_stream } => {
                out.push(Action::ResponseBody { body, end_of_stream });
            }
            Event::RequestTrailers(_) => out.finish(),
            _ => out.push(Action::RequestHeaders(HeaderChanges::default())),
        }
    }
}

/// Returns the bytes of a frame.
pub(super) fn framed(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::head(payload.len(), kind, flags, stream, &mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

/// Returns the headers of a call, compressed much as Envoy does on a new connection.
pub(super) fn block() -> Vec<u8> {
    let mut block = vec![0x83, 0x87, 0x44, u8::try_from(PATH.len()).unwrap_or_default()];
    block.extend_from_slice(PATH.as_bytes());
    block.extend_from_slice(b"\x0f\x10\x10application/grpc");
    block
}

/// Returns a message of gRPC with this event.
pub(super) fn message(event: Event) -> Vec<u8> {
    let wire = Incoming::from(event).into_wire(false).encode_to_vec();
    let mut bytes = vec![0];
    bytes.extend_from_slice(&u32::try_from(wire.len()).unwrap_or_default().to_be_bytes());
    bytes.extend_from_slice(&wire);
    bytes
}

/// The memory of the connection that [`frames`] drives: so little that answers must wait for it.
const MEMORY: usize = 1 << 20;
/// The initial windows that a peer chooses from. Closed and tiny ones are the most interesting.
const WINDOWS: [u32; 8] = [0, 0, 0, 1, 7, 65_535, 1 << 20, 1 << 24];
/// How often a frame, in either direction, may make the connection look at a call: when the frame comes or leaves, and once
/// more when the connection has a window again.
const VISITS: usize = 2;

/// Lets commands choose the frames of a peer whose windows may be closed. The commands are bytes, each with its arguments
/// behind it.
///
/// # Panics
///
/// If the connection sends more than the windows allow, sends for a stream that is closed, gives the peer more window than it
/// may have, keeps memory after its calls have ended, or does more work than its frames account for.
pub fn frames(commands: &[u8]) {
    let mut peer = Peer::new();
    let mut commands = commands.iter().copied();
    while let (false, Some(command)) = (peer.is_cut_off, commands.next()) {
        peer.step(command, &mut commands);
    }
    peer.end();
}

/// The peer's view of a connection.
struct Peer {
    core: Core<Echo>,
    memory: Arc<Budget>,
    /// The bytes of the output that were checked.
    checked: usize,
    /// How many calls were opened.
    opened: u32,
    /// The windows that this side has given: of the connection, of a new call, and of the streams that are open.
    window: i64,
    call_window: i64,
    windows: BTreeMap<u32, i64>,
    frame_limit: usize,
    /// The windows that this side may use: of the connection, and of the streams that are open.
    credit: i64,
    credits: BTreeMap<u32, i64>,
    /// How often calls may be looked at. Only the crate's own tests count the looks.
    allowed: usize,
    /// Whether the connection has ended with an error.
    is_cut_off: bool,
}

impl Peer {
    fn new() -> Self {
        let memory = Budget::new(MEMORY);
        let options = ServerOptions { memory: Arc::clone(&memory), ..ServerOptions::default() };
        let mut peer = Self {
            core: Core::new(Arc::new(ServerState::new(Arc::new(Echo), options))),
            memory,
            checked: 0,
            opened: 0,
            window: 65_535,
            call_window: 65_535,
            windows: BTreeMap::new(),
            frame_limit: MAX_FRAME,
            credit: 65_535,
            credits: BTreeMap::new(),
            allowed: 0,
            is_cut_off: false,
        };
        peer.receive(frame::PREFACE);
        peer.check();
        peer
    }

    /// Does what a command says. Most frames are valid, because an error of the connection is the end.
    fn step(&mut self, command: u8, arguments: &mut impl Iterator<Item = u8>) {
        let mut byte = || arguments.next().unwrap_or_default();
        match command % 20 {
            0 | 1 => self.open_calls(1),
            2 => self.open_calls(byte()),
            3 => {
                let block = block();
                let (first, rest) = block.split_at(usize::from(byte()) % block.len());
                let stream = self.next_stream();
                self.send(frame::HEADERS, 0, stream, first);
                self.send(frame::CONTINUATION, 0, stream, &[]);
                self.send(frame::CONTINUATION, frame::END_HEADERS, stream, rest);
            }
            // A field too many, and one that does not belong here. Perhaps the stream ends with them.
            4 => {
                let flags = frame::END_HEADERS | (byte() & frame::END_STREAM);
                let block = [&block()[..], &[0x80 | (byte() & 0x3f), 0x82]].concat();
                let stream = self.next_stream();
                self.send(frame::HEADERS, flags, stream, &block);
            }
            5..=8 => {
                let stream = self.stream(byte());
                let body = vec![7; usize::from(byte()) << (byte() % 12)];
                let event = Event::ResponseBody { body: body.into(), end_of_stream: false };
                for part in message(event).chunks(MAX_FRAME) {
                    self.send(frame::DATA, 0, stream, part);
                }
            }
            9 => {
                let stream = self.stream(byte());
                let flags = byte() & (frame::END_STREAM | frame::PADDED);
                let mut payload: Vec<u8> = (0..byte()).map(|_| byte()).collect();
                // Padding that is longer than the frame is rare.
                if let (Some(padding), length @ 1..) = (payload.first().copied(), payload.len() / 2) {
                    payload[0] = padding % u8::try_from(length).unwrap_or(u8::MAX);
                }
                self.send(frame::DATA, flags, stream, &payload);
            }
            10 => {
                let stream = self.stream(byte());
                let last = message(Event::RequestTrailers(Headers::new()));
                self.send(frame::DATA, frame::END_STREAM, stream, &last);
            }
            11 => {
                let stream = self.stream(byte());
                self.send(frame::HEADERS, frame::END_HEADERS | frame::END_STREAM, stream, b"\x00\x01a\x01b");
            }
            12 | 13 => {
                let stream = self.stream(byte());
                self.update(stream, (u32::from(byte()) << (byte() % 20)).max(1));
            }
            14 => self.update(0, (u32::from(byte()) << (byte() % 20)).max(1)),
            15 => match byte() {
                u8::MAX => self.set_initial_window(0x7fff_ffff),
                window => self.set_initial_window(WINDOWS[usize::from(window) % WINDOWS.len()]),
            },
            16 => {
                let stream = self.stream(byte());
                self.close(stream);
                self.send(frame::RST_STREAM, 0, stream, &[0, 0, 0, 8]);
            }
            17 => match byte() % 6 {
                0 => self.send(frame::PING, 0, 0, &[1; 8]),
                1 => self.send(frame::PING, frame::ACK, 0, &[0; 8]),
                2 => self.send(frame::GOAWAY, 0, 0, &[0; 8]),
                3 => self.send(99, 0, 0, b"unknown"),
                4 => {
                    let stream = self.stream(byte());
                    self.send(frame::PRIORITY, 0, stream, &[0; 5]);
                }
                _ => {
                    self.frame_limit = MAX_FRAME << (byte() % 10);
                    let limit = u32::try_from(self.frame_limit).unwrap_or_default();
                    self.send(frame::SETTINGS, 0, 0, &[&[0, 5][..], &limit.to_be_bytes()].concat());
                }
            },
            18 => match byte() % 4 {
                0 => self.core.leave(),
                1 => self.core.ping(),
                _ => {
                    self.allow(self.core.calls());
                    self.core.expire(Duration::from_secs(1), Duration::from_secs(3));
                }
            },
            // The peer reads. Until then, the output waits.
            _ => self.read(),
        }
        self.core.poll(&Context::from_waker(Waker::noop()));
        self.core.fill();
        self.check();
    }

    /// Returns a stream that was opened, or rarely the next one.
    fn stream(&mut self, number: u8) -> u32 {
        if self.opened == 0 {
            self.open_calls(1);
        }
        let call = if number == u8::MAX { self.opened } else { u32::from(number) % self.opened };
        2 * call + 1
    }

    fn close(&mut self, stream: u32) {
        self.windows.remove(&stream);
        self.credits.remove(&stream);
    }

    fn next_stream(&mut self) -> u32 {
        let stream = 2 * self.opened + 1;
        self.opened += 1;
        self.windows.insert(stream, self.call_window);
        self.credits.insert(stream, i64::from(STREAM_WINDOW));
        stream
    }

    fn open_calls(&mut self, count: u8) {
        for _ in 0..count {
            let stream = self.next_stream();
            self.send(frame::HEADERS, frame::END_HEADERS, stream, &block());
        }
    }

    /// Accounts for looks at so many calls.
    fn allow(&mut self, visits: usize) {
        self.allowed += visits;
    }

    fn update(&mut self, stream: u32, increment: u32) {
        if stream == 0 {
            self.window += i64::from(increment);
        } else if let Some(window) = self.windows.get_mut(&stream) {
            *window += i64::from(increment);
        }
        self.send(frame::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes());
    }

    fn set_initial_window(&mut self, window: u32) {
        let change = i64::from(window) - self.call_window;
        self.call_window += change;
        self.windows.values_mut().for_each(|window| *window += change);
        // Only this frame looks at all calls. Each of them may then have something to send.
        self.allow(2 * self.core.calls());
        self.send(frame::SETTINGS, 0, 0, &[&[0, 4][..], &window.to_be_bytes()].concat());
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        if kind == frame::DATA {
            let length = i64::try_from(payload.len()).unwrap_or(i64::MAX);
            let credit = self.credits.entry(stream).or_default();
            // The peer waits as it should: more would be the end of the connection.
            if self.credit < length || (self.windows.contains_key(&stream) && *credit < length) {
                return;
            }
            *credit -= length;
            self.credit -= length;
        }
        self.receive(&framed(kind, flags, stream, payload));
    }

    fn receive(&mut self, bytes: &[u8]) {
        if self.is_cut_off {
            return;
        }
        self.allow(VISITS);
        match self.core.receive(bytes) {
            Ok(taken) => assert_eq!(taken, bytes.len(), "a whole frame is processed"),
            Err(failed) => {
                self.core.fail(failed);
                self.is_cut_off = true;
            }
        }
    }

    fn read(&mut self) {
        self.check();
        self.core.output().clear();
        self.checked = 0;
    }

    /// Checks the output that has come since the last call.
    fn check(&mut self) {
        let output = std::mem::take(self.core.output());
        assert!(output.len() <= MAX_OUTPUT + 2 * MAX_BODY_CHUNK, "{} bytes wait for the peer", output.len());
        while let Some(head) = output[self.checked..].first_chunk::<HEAD>() {
            let head = Head::read(*head);
            let payload = &output[self.checked + HEAD..][..head.length];
            self.checked += HEAD + head.length;
            self.check_frame(head, payload);
        }
        assert_eq!(self.checked, output.len(), "whole frames");
        *self.core.output() = output;
        #[cfg(test)]
        assert!(self.core.visits <= self.allowed, "{} visits, {} allowed", self.core.visits, self.allowed);
    }

    fn check_frame(&mut self, head: Head, payload: &[u8]) {
        self.allow(VISITS);
        let stream = head.stream;
        match head.kind {
            frame::DATA => {
                let window = self.windows.get_mut(&stream).expect("data is for an open stream");
                let length = i64::try_from(head.length).unwrap_or(i64::MAX);
                assert!(head.length <= self.frame_limit, "{head:?}");
                assert!(length <= *window && length <= self.window, "{head:?}: {window} and {}", self.window);
                *window -= length;
                self.window -= length;
            }
            frame::HEADERS => {
                assert!(self.windows.contains_key(&stream), "headers are for an open stream: {head:?}");
                if head.has(frame::END_STREAM) {
                    self.close(stream);
                }
            }
            frame::RST_STREAM => self.close(stream),
            frame::WINDOW_UPDATE => {
                let increment = payload.iter().fold(0_u32, |value, byte| (value << 8) | u32::from(*byte));
                if stream == 0 {
                    self.credit += i64::from(increment);
                    assert!(self.credit <= i64::from(CONNECTION_WINDOW), "{}", self.credit);
                } else if let Some(credit) = self.credits.get_mut(&stream) {
                    *credit += i64::from(increment);
                    assert!(*credit <= i64::from(STREAM_WINDOW), "{credit}");
                }
            }
            _ => {}
        }
    }

    /// Ends all calls. Nothing of them may stay.
    fn end(mut self) {
        for stream in self.windows.keys().copied().collect::<Vec<_>>() {
            self.close(stream);
            self.send(frame::RST_STREAM, 0, stream, &[0, 0, 0, 8]);
            self.read();
        }
        self.core.fill();
        self.read();
        assert_eq!(self.core.calls(), 0, "every call has ended");
        assert_eq!(self.memory.held(), 0, "bytes of calls that have ended are held");
    }
}
