//! Tests of connections without a socket.

mod properties;

use std::sync::Arc;

use bytes::Bytes;
use longboat_accept::Budget;
use prost::Message;

use super::{
    core::{ConnectionError, Core},
    frame::{self, Code, HEAD, Head},
    peer::{Echo, block, framed, message},
};
use crate::{
    Action, Event, Headers, Reply, ServerOptions,
    server::{MAX_STREAMS, options::ServerState},
    windows::{CONNECTION_WINDOW, STREAM_WINDOW},
    wire::ProcessingResponse,
};

fn core() -> Core<Echo> {
    core_with(&Budget::new(64 << 20))
}

fn core_with(memory: &Arc<Budget>) -> Core<Echo> {
    let options = ServerOptions { memory: Arc::clone(memory), ..ServerOptions::default() };
    Core::new(Arc::new(ServerState::new(Arc::new(Echo), options)))
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

fn opening(stream: u32) -> Vec<u8> {
    framed(frame::HEADERS, frame::END_HEADERS, stream, &block())
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

/// A connection with the stream 1, whose output so far is taken.
fn opened() -> Core<Echo> {
    let mut core = core();
    take(&mut core, &greeting());
    take(&mut core, &opening(1));
    frames(&mut core);
    core
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
    let mut core = opened();
    take(&mut core, &framed(frame::DATA, 0, 1, &message(Event::RequestTrailers(Headers::new()))));
    assert_eq!(kinds(&frames(&mut core)), [(frame::HEADERS, 1), (frame::RST_STREAM, 1)]);
    take(&mut core, &framed(frame::DATA, 0, 1, &body(b"late")));
    take(&mut core, &framed(frame::RST_STREAM, 0, 1, &[0, 0, 0, 8]));
    assert_eq!(kinds(&frames(&mut core)), []);
}

#[test]
fn nothing_of_a_call_is_read_after_a_message_that_cannot_be() {
    let mut core = opened();
    // Compressed, without an encoding in the headers.
    take(&mut core, &framed(frame::DATA, 0, 1, &[1, 0, 0, 0, 1, 0]));
    take(&mut core, &framed(frame::DATA, 0, 1, &body(b"x")));
    assert_eq!(kinds(&frames(&mut core)), [(frame::HEADERS, 1), (frame::RST_STREAM, 1)]);
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
    let mut core = opened();
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
    let mut core = opened();
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
        (framed(frame::PING, 0, 1, &[0; 8]), Code::Protocol),
        (framed(frame::GOAWAY, 0, 1, &[0; 8]), Code::Protocol),
        (framed(frame::SETTINGS, 0, 1, &[]), Code::Protocol),
        (framed(frame::SETTINGS, frame::ACK, 0, &[0; 6]), Code::FrameSize),
        (framed(frame::SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 2]), Code::Protocol),
        (framed(frame::RST_STREAM, 0, 1, &[0; 4]), Code::Protocol),
        (framed(frame::RST_STREAM, 0, 1, &[0; 5]), Code::FrameSize),
        (framed(frame::HEADERS, frame::WITH_PRIORITY, 1, &[0, 0, 0, 1, 9]), Code::Protocol),
        (framed(frame::HEADERS, frame::WITH_PRIORITY, 1, &[0; 4]), Code::FrameSize),
        (framed(frame::PRIORITY, 0, 1, &[0; 4]), Code::FrameSize),
        (framed(frame::PRIORITY, 0, 3, &[0, 0, 0, 3, 9]), Code::Protocol),
        (framed(frame::PRIORITY, 0, 0, &[0; 5]), Code::Protocol),
        (framed(frame::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]), Code::Protocol),
        (endless, Code::EnhanceYourCalm),
        (interrupted, Code::Protocol),
    ] {
        let mut core = core();
        take(&mut core, &greeting());
        let failed = core.receive(&bytes);
        assert_eq!(failed, Err(ConnectionError(code)), "{bytes:x?}");
        core.fail(ConnectionError(code));
        let (head, payload) = frames(&mut core).pop().unwrap();
        assert_eq!((head.kind, payload[7]), (frame::GOAWAY, code as u8));
    }
    assert_eq!(core().receive(b"GET / HTTP/1.1\r\n"), Err(ConnectionError(Code::Protocol)));
}

/// The error codes of the streams that were reset.
fn resets(frames: &[(Head, Vec<u8>)]) -> Vec<(u32, u8)> {
    let resets = frames.iter().filter(|(head, _)| head.kind == frame::RST_STREAM);
    resets.map(|(head, payload)| (head.stream, payload[3])).collect()
}

const LAST: u8 = frame::END_HEADERS | frame::END_STREAM;

#[test]
fn an_error_of_a_stream_ends_only_that_stream() {
    let malformed = [&block()[..], b"\x00\x01A\x01b"].concat();
    let announced = [&block()[..], b"\x0f\x0d\x015"].concat();
    let ended = || [opening(1), framed(frame::DATA, frame::END_STREAM, 1, b"\0")].concat();
    for (what, frames_of_peer, code) in [
        ("a name in upper case", framed(frame::HEADERS, frame::END_HEADERS, 1, &malformed), Code::Protocol),
        (
            "more data than announced",
            [framed(frame::HEADERS, frame::END_HEADERS, 1, &announced), framed(frame::DATA, 0, 1, &[0; 6])]
                .concat(),
            Code::Protocol,
        ),
        (
            "less data than announced",
            [
                framed(frame::HEADERS, frame::END_HEADERS, 1, &announced),
                framed(frame::DATA, frame::END_STREAM, 1, &[0; 4]),
            ]
            .concat(),
            Code::Protocol,
        ),
        ("no data, but some announced", framed(frame::HEADERS, LAST, 1, &announced), Code::Protocol),
        ("headers that are no trailers", [opening(1), opening(1)].concat(), Code::Protocol),
        (
            "trailers that end nothing",
            [opening(1), framed(frame::HEADERS, frame::END_HEADERS, 1, &[])].concat(),
            Code::Protocol,
        ),
        ("data after the end", [ended(), framed(frame::DATA, 0, 1, b"x")].concat(), Code::StreamClosed),
        (
            "trailers after the end",
            [ended(), framed(frame::HEADERS, LAST, 1, &[])].concat(),
            Code::StreamClosed,
        ),
        (
            "data after a reset",
            [opening(1), framed(frame::RST_STREAM, 0, 1, &[0; 4]), framed(frame::DATA, 0, 1, b"x")].concat(),
            Code::StreamClosed,
        ),
        ("too much window", [opening(1), update(1, 0x7fff_ffff)].concat(), Code::FlowControl),
    ] {
        let mut core = core();
        take(&mut core, &[greeting(), frames_of_peer].concat());
        assert_eq!(resets(&frames(&mut core)), [(1, code as u8)], "{what}");
        assert_eq!(core.calls(), 0, "{what}");
        take(&mut core, &[opening(3), framed(frame::DATA, 0, 3, &body(b"x"))].concat());
        assert_eq!(replies(&frames(&mut core), 3), echoed(b"x"), "{what}");
    }
}

#[test]
fn a_peer_that_asks_and_never_reads_is_cut_off() {
    let mut core = core();
    take(&mut core, &greeting());
    let ping = framed(frame::PING, 0, 0, &[0; 8]).repeat(1000);
    let ended = (0..1000).map(|_| core.receive(&ping)).find(Result::is_err);
    assert_eq!(ended, Some(Err(ConnectionError(Code::EnhanceYourCalm))));
}

/// A message with a response body, whose bytes count while its answer waits.
fn chunk(stream: u32, length: usize) -> Vec<u8> {
    let event = Event::ResponseBody { body: Bytes::from(vec![7; length]), end_of_stream: false };
    message(event).chunks(16_000).flat_map(|part| framed(frame::DATA, 0, stream, part)).collect()
}

fn chunks(replies: &[Reply]) -> Vec<usize> {
    let length = |reply: &Reply| match &reply.action {
        Action::ResponseBody { body, .. } => body.len(),
        other => panic!("{other:?}"),
    };
    replies.iter().map(length).collect()
}

fn window(bytes: u32) -> Vec<u8> {
    framed(frame::SETTINGS, 0, 0, &[&[0, 4][..], &bytes.to_be_bytes()].concat())
}

fn update(stream: u32, bytes: u32) -> Vec<u8> {
    framed(frame::WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
}

/// A connection whose calls may not send.
fn closed(memory: &Arc<Budget>) -> Core<Echo> {
    let mut core = core_with(memory);
    take(&mut core, &[greeting(), window(0)].concat());
    frames(&mut core);
    core
}

#[test]
fn answers_that_wait_for_a_closed_window_share_one_memory() {
    let memory = Budget::new(1 << 20);
    let mut core = closed(&memory);
    let mut refused = 0;
    for stream in (0..40).map(|call| 2 * call + 1) {
        take(&mut core, &opening(stream));
        for _ in 0..10 {
            take(&mut core, &chunk(stream, 15_000));
        }
        let sent = frames(&mut core);
        refused += sent.iter().filter(|(head, _)| head.kind == frame::RST_STREAM).count();
        assert!(sent.iter().all(|(head, payload)| head.kind != frame::RST_STREAM || payload[3] == 11));
        assert!(memory.held() <= 1 << 20);
    }
    assert!(core.calls() > 2);
    assert_eq!(core.calls() + refused, 40);
    let held = memory.held();
    take(&mut core, &[update(1, 1 << 20), update(0, 1 << 20)].concat());
    let mut sent = frames(&mut core);
    sent.extend(frames(&mut core));
    assert_eq!(chunks(&replies(&sent, 1)), [15_000; 10]);
    assert!(memory.held() + 150_000 <= held);
    drop(core);
    assert_eq!(memory.held(), 0);
}

#[test]
fn a_caller_gets_no_new_window_while_its_answers_wait() {
    let memory = Budget::new(64 << 20);
    let mut core = closed(&memory);
    take(&mut core, &opening(1));
    for _ in 0..60 {
        take(&mut core, &chunk(1, 15_000));
        assert!(!kinds(&frames(&mut core)).contains(&(frame::WINDOW_UPDATE, 1)));
    }
    take(&mut core, &[update(1, 1 << 20), update(0, 2 << 20)].concat());
    let sent: Vec<_> = (0..20).flat_map(|_| frames(&mut core)).collect();
    assert!(kinds(&sent).contains(&(frame::WINDOW_UPDATE, 1)));
    assert_eq!(memory.held(), 0);
}

#[test]
fn what_a_frame_costs_does_not_depend_on_the_open_calls() {
    // Calls that wait for their own windows, and for the connection's.
    for calls_may_send in [0, 1 << 20] {
        let visits = [1, 16, MAX_STREAMS].map(|calls| {
            let memory = Budget::new(64 << 20);
            let mut core = closed(&memory);
            let reset = framed(frame::RST_STREAM, 0, 1, &[0, 0, 0, 8]);
            take(&mut core, &[window(calls_may_send), opening(1), reset.clone()].concat());
            for stream in (0..calls).map(|call| 2 * call + 3) {
                take(&mut core, &[opening(stream), chunk(stream, 70_000)].concat());
                frames(&mut core);
            }
            assert!(!core.can_fill());
            let before = core.visits;
            for _ in 0..100 {
                take(&mut core, &framed(frame::PING, 0, 0, &[9; 8]));
                take(&mut core, &framed(frame::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 7]));
                take(&mut core, &framed(frame::PRIORITY, 0, 1, &[0; 5]));
                take(&mut core, &reset);
                take(&mut core, &framed(frame::DATA, 0, 1, b"late"));
                take(&mut core, &[update(3, 1), chunk(3, 10)].concat());
                frames(&mut core);
            }
            core.visits - before
        });
        assert!(visits[0] <= 100, "{visits:?}");
        assert_eq!(visits, [visits[0]; 3]);
    }
}

#[test]
fn of_the_windows_of_one_frame_the_last_one_counts() {
    let mut core = closed(&Budget::new(64 << 20));
    take(&mut core, &[opening(1), chunk(1, 100)].concat());
    let many: Vec<u8> =
        (0..2730_u32).flat_map(|value| [&[0, 4][..], &(value % 8).to_be_bytes()].concat()).collect();
    take(&mut core, &framed(frame::SETTINGS, 0, 0, &many));
    let sent = frames(&mut core);
    let data: usize =
        sent.iter().filter(|(head, _)| head.kind == frame::DATA).map(|(head, _)| head.length).sum();
    assert_eq!(data, 2729 % 8);
}

#[test]
fn a_peer_that_sends_only_what_serves_no_call_is_cut_off() {
    let reset = |call: u32| {
        [opening(2 * call + 3), framed(frame::RST_STREAM, 0, 2 * call + 3, &[0, 0, 0, 8])].concat()
    };
    let resets: Vec<Vec<u8>> = (0..11_000).map(reset).collect();
    for (what, parts) in [
        ("settings", vec![framed(frame::SETTINGS, 0, 0, &[]); 11_000]),
        ("empty data", vec![framed(frame::DATA, 0, 1, &[]); 11_000]),
        ("priorities", vec![framed(frame::PRIORITY, 0, 1, &[0; 5]); 11_000]),
        ("unknown frames", vec![framed(99, 0, 0, b"x"); 11_000]),
        ("resets", resets),
    ] {
        let mut core = core();
        take(&mut core, &[greeting(), opening(1)].concat());
        let ended = parts.iter().find_map(|part| {
            let ended = core.receive(part).err();
            frames(&mut core);
            ended
        });
        assert_eq!(ended, Some(ConnectionError(Code::EnhanceYourCalm)), "{what}");
    }
}
