//! Random commands, random orders of frames, and random cuts of the bytes of a connection.

use std::{
    collections::BTreeMap,
    task::{Context, Waker},
};

use longboat_accept::Budget;
use proptest::prelude::*;

use super::{
    body, chunk, chunks, closed, core, echoed, frames, greeting, opening, replies, take, update, window,
};
use crate::server::http2::{
    frame,
    peer::{self, framed},
};

/// What a caller does next.
#[derive(Debug, Clone)]
enum Step {
    Open,
    Chunk(usize, usize),
    Window(usize, u32),
    ConnectionWindow(u32),
    InitialWindow(u32),
    Reset(usize),
    Finish(usize),
    Write,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => Just(Step::Open),
        8 => (0..20_usize, 0..40_000_usize).prop_map(|(call, length)| Step::Chunk(call, length)),
        4 => (0..20_usize, 1..50_000_u32).prop_map(|(call, bytes)| Step::Window(call, bytes)),
        2 => (1..50_000_u32).prop_map(Step::ConnectionWindow),
        1 => prop_oneof![Just(0_u32), Just(7), Just(65_535)].prop_map(Step::InitialWindow),
        1 => (0..20_usize).prop_map(Step::Reset),
        1 => (0..20_usize).prop_map(Step::Finish),
        2 => Just(Step::Write),
    ];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    /// The invariants of the fuzz target, with commands at random.
    #[test]
    fn whatever_a_peer_sends_windows_and_memory_hold(commands in proptest::collection::vec(any::<u8>(), 0..2000)) {
        peer::frames(&commands);
    }

    /// Whatever the order of windows, resets and messages, each call gets its answers, whole and in order, and nothing of it
    /// stays in memory.
    #[test]
    fn every_call_gets_its_answers_whatever_the_windows(steps in steps()) {
        let memory = Budget::new(64 << 20);
        let mut core = closed(&memory);
        let stream = |call: usize| u32::try_from(2 * call + 1).unwrap();
        let (mut opened, mut sent) = (0, Vec::new());
        // The lengths of the bodies of each call, and whether it has ended its stream.
        let mut calls: BTreeMap<usize, (Vec<usize>, bool)> = BTreeMap::new();
        for step in steps {
            let open = |call: usize| calls.get(&call).is_some_and(|(_, finished)| !finished);
            let bytes = match step {
                Step::Open => {
                    calls.insert(opened, (Vec::new(), false));
                    opened += 1;
                    opening(stream(opened - 1))
                }
                Step::Chunk(call, length) if open(call) => {
                    calls.get_mut(&call).unwrap().0.push(length);
                    chunk(stream(call), length)
                }
                Step::Window(call, bytes) if open(call) => update(stream(call), bytes),
                Step::ConnectionWindow(bytes) => update(0, bytes),
                Step::InitialWindow(bytes) => window(bytes),
                Step::Reset(call) if open(call) => {
                    calls.remove(&call);
                    framed(frame::RST_STREAM, 0, stream(call), &[0, 0, 0, 8])
                }
                Step::Finish(call) if open(call) => {
                    calls.get_mut(&call).unwrap().1 = true;
                    framed(frame::DATA, frame::END_STREAM, stream(call), &[])
                }
                Step::Write => {
                    sent.extend(frames(&mut core));
                    continue;
                }
                _ => continue,
            };
            take(&mut core, &bytes);
        }
        take(&mut core, &[window(8 << 20), update(0, 64 << 20)].concat());
        sent.extend(frames(&mut core));
        while core.can_fill() {
            sent.extend(frames(&mut core));
        }
        for (&call, (lengths, finished)) in &calls {
            prop_assert_eq!(&chunks(&replies(&sent, stream(call))), lengths, "call {}", call);
            let ended = sent.iter().any(|(head, _)| head.stream == stream(call) && head.has(frame::END_STREAM));
            prop_assert_eq!(ended, *finished, "call {}", call);
        }
        prop_assert_eq!(memory.held(), 0);
    }

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
