//! Tests of connections without a socket.

use std::task::{Context, Waker};

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;

use super::{
    core::{Core, Failed},
    frame::{self, Code, HEAD, Head},
};
use crate::{
    Action, Event, HeaderChanges, Headers, Incoming, Outbox, Processor, ProcessorExchange, Reply,
    ServerOptions,
    client::{CONNECTION_WINDOW, STREAM_WINDOW},
    server::Shared,
    wire::ProcessingResponse,
};

/// A processor that sends bodies back.
struct Echo;
struct Body;

impl Processor for Echo {
    type Exchange = Body;

    fn open(&self) -> Body {
        Body
    }
}

impl ProcessorExchange for Body {
    fn handle(&mut self, incoming: Incoming, out: &mut Outbox) {
        match incoming.event {
            Event::RequestBody { body, end_of_stream } => {
                out.push(Action::RequestBody { body, end_of_stream });
            }
            Event::RequestTrailers(_) => out.finish(),
            _ => out.push(Action::RequestHeaders(HeaderChanges::default())),
        }
    }
}

fn core() -> Core<Echo> {
    Core::new(std::sync::Arc::new(Shared::new(std::sync::Arc::new(Echo), ServerOptions::default())))
}

/// Returns the frames of the output so far.
fn frames(core: &mut Core<Echo>) -> Vec<(Head, Vec<u8>)> {
    core.fill();
    let mut output = std::mem::take(core.output());
    let mut frames = Vec::new();
    while let Some(head) = output.first_chunk::<HEAD>() {
        let head = Head::read(*head);
        let rest = output.split_off(HEAD + head.length);
        frames.push((head, output.split_off(HEAD)));
        output = rest;
    }
    assert!(output.is_empty(), "whole frames");
    frames
}

fn kinds(frames: &[(Head, Vec<u8>)]) -> Vec<(u8, u32)> {
    frames.iter().map(|(head, _)| (head.kind, head.stream)).collect()
}

fn framed(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::head(payload.len(), kind, flags, stream, &mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

/// Returns the headers of a call, compressed much as Envoy does on a new connection.
fn block() -> Vec<u8> {
    let path = crate::server::PATH;
    let mut block = vec![0x83, 0x87, 0x44, u8::try_from(path.len()).unwrap()];
    block.extend_from_slice(path.as_bytes());
    block.extend_from_slice(b"\x0f\x10\x10application/grpc");
    block
}

fn opening(stream: u32) -> Vec<u8> {
    framed(frame::HEADERS, frame::END_HEADERS, stream, &block())
}

fn message(event: Event) -> Vec<u8> {
    let wire = Incoming::from(event).into_wire(false).encode_to_vec();
    let mut bytes = vec![0];
    bytes.extend_from_slice(&u32::try_from(wire.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(&wire);
    bytes
}

fn body(text: &[u8]) -> Vec<u8> {
    message(Event::RequestBody { body: Bytes::copy_from_slice(text), end_of_stream: true })
}

fn greeting() -> Vec<u8> {
    let mut bytes = frame::PREFACE.to_vec();
    bytes.extend(framed(frame::SETTINGS, 0, 0, &[]));
    bytes
}

/// Feeds bytes and checks that all of them are processed.
fn take(core: &mut Core<Echo>, bytes: &[u8]) {
    assert_eq!(core.receive(bytes), Ok(bytes.len()));
}

fn replies(frames: &[(Head, Vec<u8>)], stream: u32) -> Vec<Reply> {
    let data: Vec<u8> = frames
        .iter()
        .filter(|(head, _)| head.kind == frame::DATA && head.stream == stream)
        .flat_map(|(_, payload)| payload.clone())
        .collect();
    let mut rest = &data[..];
    let mut replies = Vec::new();
    while let [0, a, b, c, d, after @ ..] = rest {
        let (message, after) = after.split_at(u32::from_be_bytes([*a, *b, *c, *d]) as usize);
        replies.extend(Reply::from_wire(ProcessingResponse::decode(message).unwrap()));
        rest = after;
    }
    assert!(rest.is_empty(), "whole messages");
    replies
}

fn echoed(text: &[u8]) -> Vec<Reply> {
    vec![Action::RequestBody { body: Bytes::copy_from_slice(text), end_of_stream: true }.into()]
}

#[test]
fn a_call_is_answered_and_ended() {
    let mut core = core();
    take(&mut core, &greeting());
    assert_eq!(
        kinds(&frames(&mut core)),
        [(frame::SETTINGS, 0), (frame::WINDOW_UPDATE, 0), (frame::SETTINGS, 0)]
    );
    take(&mut core, &opening(1));
    assert_eq!(kinds(&frames(&mut core)), [], "nothing is said before there is something to say");
    take(&mut core, &framed(frame::DATA, 0, 1, &body(b"x")));
    let sent = frames(&mut core);
    assert_eq!(kinds(&sent), [(frame::HEADERS, 1), (frame::DATA, 1)]);
    assert_eq!(replies(&sent, 1), echoed(b"x"));
    take(&mut core, &framed(frame::DATA, frame::END_STREAM, 1, &[]));
    let sent = frames(&mut core);
    assert_eq!(kinds(&sent), [(frame::HEADERS, 1)]);
    assert!(sent[0].0.has(frame::END_STREAM), "trailers");
}

#[test]
fn a_call_that_we_end_is_reset_and_what_still_comes_for_it_is_ignored() {
    let mut core = core();
    take(&mut core, &greeting());
    take(&mut core, &opening(1));
    frames(&mut core);
    take(&mut core, &framed(frame::DATA, 0, 1, &message(Event::RequestTrailers(Headers::new()))));
    assert_eq!(kinds(&frames(&mut core)), [(frame::HEADERS, 1), (frame::RST_STREAM, 1)]);
    take(&mut core, &framed(frame::DATA, 0, 1, &body(b"late")));
    take(&mut core, &framed(frame::RST_STREAM, 0, 1, &[0, 0, 0, 8]));
    assert_eq!(kinds(&frames(&mut core)), []);
}

#[test]
fn no_more_is_sent_than_the_windows_allow() {
    let mut core = core();
    let mut bytes = frame::PREFACE.to_vec();
    // A window of seven bytes for each call.
    bytes.extend(framed(frame::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 7]));
    take(&mut core, &bytes);
    for stream in [1, 3] {
        take(&mut core, &opening(stream));
        take(&mut core, &framed(frame::DATA, 0, stream, &body(b"hello")));
    }
    let mut sent = frames(&mut core);
    let length = |sent: &[(Head, Vec<u8>)], stream| -> usize {
        sent.iter()
            .filter(|(head, _)| (head.kind, head.stream) == (frame::DATA, stream))
            .map(|(head, _)| head.length)
            .sum()
    };
    assert_eq!((length(&sent, 1), length(&sent, 3)), (7, 7));
    assert!(!core.can_fill());
    take(&mut core, &framed(frame::WINDOW_UPDATE, 0, 3, &[0, 0, 1, 0]));
    sent.extend(frames(&mut core));
    assert_eq!((length(&sent, 1), replies(&sent, 3)), (7, echoed(b"hello")));
    // Larger windows for all open calls.
    take(&mut core, &framed(frame::SETTINGS, 0, 0, &[0, 4, 0, 0, 1, 0]));
    sent.extend(frames(&mut core));
    assert_eq!(replies(&sent, 1), echoed(b"hello"));
}

#[test]
fn what_is_taken_in_may_be_sent_anew() {
    let mut core = core();
    take(&mut core, &greeting());
    take(&mut core, &opening(1));
    frames(&mut core);
    // A peer that respects its windows can send without end.
    let (mut call, mut connection) = (i64::from(STREAM_WINDOW), i64::from(CONNECTION_WINDOW));
    let part = framed(frame::DATA, 0, 1, &body(&[7; 16_000]));
    for _ in 0..1000 {
        let length = i64::try_from(part.len() - HEAD).unwrap();
        assert!(call >= length && connection >= length, "{call} {connection}");
        take(&mut core, &part);
        call -= length;
        connection -= length;
        // The peer also restores the windows for what the server sends.
        take(&mut core, &framed(frame::WINDOW_UPDATE, 0, 0, &[0, 1, 0, 0]));
        take(&mut core, &framed(frame::WINDOW_UPDATE, 0, 1, &[0, 1, 0, 0]));
        for (head, payload) in frames(&mut core) {
            if head.kind == frame::WINDOW_UPDATE {
                let more = i64::from(u32::from_be_bytes(payload.try_into().unwrap()));
                *(if head.stream == 0 { &mut connection } else { &mut call }) += more;
            }
        }
    }
}

#[test]
fn headers_may_come_in_pieces_with_padding_and_a_priority() {
    let mut core = core();
    take(&mut core, &greeting());
    frames(&mut core);
    let block = block();
    let (first, rest) = block.split_at(5);
    let mut padded = vec![3, 0, 0, 0, 0, 16];
    padded.extend_from_slice(first);
    padded.extend_from_slice(&[0; 3]);
    take(&mut core, &framed(frame::HEADERS, frame::PADDED | frame::WITH_PRIORITY, 1, &padded));
    take(&mut core, &framed(frame::CONTINUATION, 0, 1, &rest[..9]));
    take(&mut core, &framed(frame::CONTINUATION, frame::END_HEADERS, 1, &rest[9..]));
    let mut padded = vec![200];
    padded.extend(body(b"x"));
    padded.extend([0; 200]);
    take(&mut core, &framed(frame::DATA, frame::PADDED, 1, &padded));
    assert_eq!(replies(&frames(&mut core), 1), echoed(b"x"));
}

#[test]
fn pings_are_answered_and_leaving_lets_calls_end() {
    let mut core = core();
    take(&mut core, &greeting());
    take(&mut core, &opening(1));
    frames(&mut core);
    take(&mut core, &framed(frame::PING, 0, 0, b"12345678"));
    let sent = frames(&mut core);
    assert_eq!(
        (kinds(&sent), &sent[0].1[..], sent[0].0.flags),
        (vec![(frame::PING, 0)], &b"12345678"[..], frame::ACK)
    );
    core.leave();
    core.leave();
    let sent = frames(&mut core);
    assert_eq!(kinds(&sent), [(frame::GOAWAY, 0), (frame::PING, 0)], "said once");
    // A call that was already on its way is still accepted.
    take(&mut core, &opening(3));
    take(&mut core, &framed(frame::PING, frame::ACK, 0, &[0; 8]));
    let sent = frames(&mut core);
    assert_eq!((kinds(&sent), sent[0].1[3]), (vec![(frame::GOAWAY, 0)], 3));
    take(&mut core, &opening(5));
    assert_eq!(kinds(&frames(&mut core)), [(frame::RST_STREAM, 5)]);
    for stream in [1, 3] {
        assert!(!core.is_done());
        take(&mut core, &framed(frame::DATA, frame::END_STREAM, stream, &[]));
        frames(&mut core);
    }
    assert!(core.is_done());
}

#[test]
fn a_peer_that_breaks_the_protocol_is_told_which_rule() {
    let longest = u32::try_from(frame::MAX_FRAME + 1).unwrap().to_be_bytes();
    let too_long = [longest[1], longest[2], longest[3], 0, 0, 0, 0, 0, 1];
    let mut endless = framed(frame::HEADERS, 0, 1, &block());
    for _ in 0..5 {
        endless.extend(framed(frame::CONTINUATION, 0, 1, &[0; 16_000]));
    }
    let mut interrupted = framed(frame::HEADERS, 0, 1, &block());
    interrupted.extend(framed(frame::PING, 0, 0, &[0; 8]));
    for (bytes, code) in [
        (too_long.to_vec(), Code::FrameSize),
        (framed(frame::DATA, 0, 1, b"x"), Code::Protocol),
        (framed(frame::HEADERS, frame::END_HEADERS, 2, &block()), Code::Protocol),
        (
            framed(frame::HEADERS, frame::END_HEADERS, 1, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            Code::Compression,
        ),
        (framed(frame::HEADERS, frame::PADDED, 1, &[9, 1]), Code::Protocol),
        (framed(frame::PUSH_PROMISE, 0, 1, &[0; 8]), Code::Protocol),
        (framed(frame::WINDOW_UPDATE, 0, 0, &[0; 4]), Code::Protocol),
        (framed(frame::WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]), Code::FlowControl),
        (framed(frame::SETTINGS, 0, 0, &[0; 5]), Code::FrameSize),
        (framed(frame::SETTINGS, 0, 0, &[0, 4, 0xff, 0xff, 0xff, 0xff]), Code::FlowControl),
        (framed(frame::CONTINUATION, 0, 1, &[]), Code::Protocol),
        (framed(frame::PING, 0, 0, &[0; 7]), Code::FrameSize),
        (endless, Code::EnhanceYourCalm),
        (interrupted, Code::Protocol),
    ] {
        let mut core = core();
        take(&mut core, &greeting());
        let failed = core.receive(&bytes);
        assert_eq!(failed, Err(Failed(code)), "{bytes:x?}");
        core.fail(Failed(code));
        let (head, payload) = frames(&mut core).pop().unwrap();
        assert_eq!((head.kind, payload[7]), (frame::GOAWAY, code as u8));
    }
    assert_eq!(core().receive(b"GET / HTTP/1.1\r\n"), Err(Failed(Code::Protocol)));
}

#[test]
fn a_peer_that_asks_and_never_reads_is_cut_off() {
    let mut core = core();
    take(&mut core, &greeting());
    let ping = framed(frame::PING, 0, 0, &[0; 8]).repeat(1000);
    let ended = (0..1000).map(|_| core.receive(&ping)).find(Result::is_err);
    assert_eq!(ended, Some(Err(Failed(Code::EnhanceYourCalm))));
}

proptest! {
    /// The answers do not depend on how the bytes of a connection are split, nor on how calls take turns.
    #[test]
    fn where_bytes_are_cut_makes_no_difference(
        texts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 1..6),
        cuts in proptest::collection::vec(1..40_usize, 1..50),
    ) {
        let mut bytes = greeting();
        let streams: Vec<u32> = (0..).step_by(2).map(|stream| stream + 1).take(texts.len()).collect();
        for stream in &streams {
            bytes.extend(opening(*stream));
        }
        // Messages of all calls, split into parts of a few bytes that alternate.
        let messages: Vec<Vec<u8>> = texts.iter().map(|text| body(text)).collect();
        let longest = messages.iter().map(Vec::len).max().unwrap_or_default();
        for part in 0..longest.div_ceil(11) {
            for (stream, message) in streams.iter().zip(&messages) {
                if let Some(part) = message.chunks(11).nth(part) {
                    bytes.extend(framed(frame::DATA, 0, *stream, part));
                }
            }
        }
        let mut core = core();
        let (mut sent, mut pending, mut rest) = (Vec::new(), Vec::new(), &bytes[..]);
        for cut in cuts.iter().cycle() {
            let (part, after) = rest.split_at((*cut).min(rest.len()));
            pending.extend_from_slice(part);
            let taken = core.receive(&pending).unwrap();
            pending.drain(..taken);
            core.poll(&Context::from_waker(Waker::noop()));
            sent.extend(frames(&mut core));
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        for (stream, text) in streams.iter().zip(&texts) {
            prop_assert_eq!(replies(&sent, *stream), echoed(text));
        }
    }
}
