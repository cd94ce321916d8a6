//! The decoder did not compute the prompt, so what it says about the prompt's cache hits is replaced by what the prefiller
//! said.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};

use crate::object::Object;

const USAGE: &str = "usage";
const DETAILS: &str = "prompt_tokens_details";
const CACHED: &str = "cached_tokens";

/// A line of a stream that is longer than this is no usage report; it is passed on instead of held.
const LONGEST_LINE: usize = 1 << 20;

/// Replaces the cached tokens in an answer, where it has a usage object.
pub(crate) fn rewritten(answer: &[u8], cached_tokens: u64) -> Option<Vec<u8>> {
    let mut object = Object::parse(answer).ok()?;
    let usage = object.get(USAGE)?.to_owned();
    let mut usage = Object::parse(usage.get().as_bytes()).ok()?;
    let details = usage.get(DETAILS).map(ToOwned::to_owned);
    let mut details = details
        .as_deref()
        .and_then(|details| Object::parse(details.get().as_bytes()).ok())
        .unwrap_or_default();
    details.set_value(CACHED, &cached_tokens);
    let details = serde_json::value::to_raw_value(&details).ok()?;
    usage.set(DETAILS, Cow::Owned(details));
    let usage = serde_json::value::to_raw_value(&usage).ok()?;
    object.set(USAGE, Cow::Owned(usage));
    Some(object.to_vec())
}

/// Does so in a stream of server-sent events, line by line; lines that say nothing about usage leave as they came.
#[derive(Debug)]
pub(crate) struct Events {
    cached_tokens: u64,
    /// The begin of a line whose end has not come.
    partial: BytesMut,
    /// Whether the current line is too long to be held.
    passing: bool,
}

// === impl Events ===

impl Events {
    pub(crate) fn new(cached_tokens: u64) -> Self {
        Self { cached_tokens, partial: BytesMut::new(), passing: false }
    }

    /// Takes a piece of the stream and gives what can be passed on.
    pub(crate) fn push(&mut self, piece: &Bytes) -> Bytes {
        let mut rest = &piece[..];
        let mut out = BytesMut::with_capacity(self.partial.len() + piece.len());
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, more) = rest.split_at(end + 1);
            rest = more;
            if std::mem::take(&mut self.passing) {
                out.extend_from_slice(line);
            } else if self.partial.is_empty() {
                self.line(line, &mut out);
            } else {
                let mut whole = std::mem::take(&mut self.partial);
                whole.extend_from_slice(line);
                self.line(&whole, &mut out);
            }
        }
        if self.passing {
            out.extend_from_slice(rest);
        } else {
            self.partial.extend_from_slice(rest);
            if self.partial.len() > LONGEST_LINE {
                self.passing = true;
                out.extend_from_slice(&std::mem::take(&mut self.partial));
            }
        }
        out.freeze()
    }

    /// What is left when the stream ends without a line feed.
    pub(crate) fn finish(&mut self) -> Bytes {
        let mut out = BytesMut::new();
        let partial = std::mem::take(&mut self.partial);
        self.line(&partial, &mut out);
        out.freeze()
    }

    fn line(&self, line: &[u8], out: &mut BytesMut) {
        let end = line.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
        let (text, terminator) = line.split_at(end);
        let rewritten = text
            .strip_prefix(b"data: ")
            .filter(|data| data.windows(7).any(|window| window == b"\"usage\""))
            .and_then(|data| rewritten(data, self.cached_tokens));
        match rewritten {
            Some(data) => {
                out.extend_from_slice(b"data: ");
                out.extend_from_slice(&data);
                out.extend_from_slice(terminator);
            }
            None => out.extend_from_slice(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(answer: &str) -> Option<String> {
        rewritten(answer.as_bytes(), 4).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn only_the_cached_tokens_of_a_usage_object_change() {
        assert_eq!(
            text(r#"{"id":"a","usage":{"prompt_tokens":5,"prompt_tokens_details":{"audio_tokens":2,"cached_tokens":1}},"z":1e3}"#)
                .unwrap(),
            r#"{"id":"a","usage":{"prompt_tokens":5,"prompt_tokens_details":{"audio_tokens":2,"cached_tokens":4}},"z":1e3}"#
        );
        assert_eq!(
            text(r#"{"usage":{"prompt_tokens_details":null}}"#).unwrap(),
            r#"{"usage":{"prompt_tokens_details":{"cached_tokens":4}}}"#
        );
        for other in [r#"{"usage":null}"#, r#"{"a":1}"#, "[1]", "hello", ""] {
            assert_eq!(text(other), None, "{other}");
        }
    }

    fn through(pieces: &[&[u8]]) -> Vec<u8> {
        let mut events = Events::new(4);
        let mut out = Vec::new();
        for piece in pieces {
            out.extend_from_slice(&events.push(&Bytes::copy_from_slice(piece)));
        }
        out.extend_from_slice(&events.finish());
        out
    }

    #[test]
    fn a_line_that_is_too_long_to_hold_is_passed_on() {
        let long =
            format!("data: {}\"usage\":{{}}\ndata: {{\"usage\":{{}}}}\n", "x".repeat(LONGEST_LINE + 1));
        let mut pieces: Vec<&[u8]> = long.as_bytes().chunks(1000).collect();
        pieces.push(b"");
        let out = String::from_utf8(through(&pieces)).unwrap();
        let expected = long.replace(
            "data: {\"usage\":{}}",
            r#"data: {"usage":{"prompt_tokens_details":{"cached_tokens":4}}}"#,
        );
        assert!(out == expected);
    }

    proptest! {
        #[test]
        fn how_a_stream_is_cut_into_pieces_changes_nothing(
            lines in prop::collection::vec(
                prop_oneof![
                    Just("data: {\"usage\":{\"prompt_tokens\":1}}\n"),
                    Just("data: {\"usage\":null}\r\n"),
                    Just("data: [DONE]\n"),
                    Just(": ping\n"),
                    Just("\n"),
                    Just("data:{\"usage\":{}}\n"),
                    Just("data: {\"x\":\"usage\"}"),
                ],
                0..8,
            ),
            size in 1_usize..20,
        ) {
            let whole = lines.concat();
            let pieces: Vec<&[u8]> = whole.as_bytes().chunks(size).collect();
            prop_assert_eq!(through(&pieces), through(&[whole.as_bytes()]));
        }
    }
}
