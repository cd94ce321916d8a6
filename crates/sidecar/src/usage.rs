//! Replaces the decoder's count of cached prompt tokens by the prefiller's count, because the decoder did not compute the
//! prompt.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use serde_json::value::{RawValue, to_raw_value};

use crate::object::Object;

const USAGE: &str = "usage";
const CACHED: &str = "cached_tokens";

/// The object with the count in the chat and completions APIs.
const DETAILS: &str = "prompt_tokens_details";
/// The object with the count in the Responses API.
const RESPONSES_DETAILS: &str = "input_tokens_details";
/// The count in the Messages API.
const MESSAGES_CACHED: &str = "cache_read_input_tokens";

/// The objects with the usage in events of the Responses API and of the Messages API.
const INNER: [&str; 2] = ["response", "message"];

/// A longer line of a stream cannot be a usage report, so it is passed on instead of held.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Reads a JSON number as a count.
pub(crate) fn number(value: &RawValue) -> Option<u64> {
    let number: f64 = value.get().parse().ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count of tokens; the cast saturates"
    )]
    let count = number as u64;
    Some(count)
}

/// Replaces the cached token count in a response. Returns `None` if the response has no usage object.
pub(crate) fn rewritten(answer: &[u8], cached_tokens: u64) -> Option<Vec<u8>> {
    let mut object = Object::parse(answer).ok()?;
    let (name, value) = if let Some(usage) = object.get(USAGE) {
        (USAGE, with_cached_tokens(usage, cached_tokens)?)
    } else {
        let (name, inner) = INNER.into_iter().find_map(|name| Some((name, object.get(name)?)))?;
        let mut inner = Object::parse(inner.get().as_bytes()).ok()?;
        let usage = with_cached_tokens(inner.get(USAGE)?, cached_tokens)?;
        inner.set(USAGE, Cow::Owned(usage));
        (name, to_raw_value(&inner).ok()?)
    };
    object.set(name, Cow::Owned(value));
    Some(object.to_vec())
}

/// Sets the count in a usage object. Returns `None` if the object has no place for it.
fn with_cached_tokens(usage: &RawValue, cached_tokens: u64) -> Option<Box<RawValue>> {
    let mut usage = Object::parse(usage.get().as_bytes()).ok()?;
    let has = |name: &str| usage.get(name).is_some();
    let place = if has("prompt_tokens") || has(DETAILS) {
        DETAILS
    } else if has(RESPONSES_DETAILS) {
        RESPONSES_DETAILS
    } else if has(MESSAGES_CACHED) {
        usage.set_value(MESSAGES_CACHED, &cached_tokens);
        return to_raw_value(&usage).ok();
    } else if has("input_tokens") {
        return None;
    } else {
        DETAILS
    };
    let details = usage.get(place).and_then(|details| Object::parse(details.get().as_bytes()).ok());
    let mut details = details.unwrap_or_default();
    details.set_value(CACHED, &cached_tokens);
    let details = to_raw_value(&details).ok()?;
    usage.set(place, Cow::Owned(details));
    to_raw_value(&usage).ok()
}

/// Returns the cached prompt tokens that an engine reports. Returns 0 if the engine does not report them.
pub(crate) fn cached_tokens(answer: &Object<'_>) -> u64 {
    let cached = || {
        let usage = Object::parse(answer.get(USAGE)?.get().as_bytes()).ok()?;
        if let Some(details) = usage.get(DETAILS).or_else(|| usage.get(RESPONSES_DETAILS)) {
            return number(Object::parse(details.get().as_bytes()).ok()?.get(CACHED)?);
        }
        number(usage.get(MESSAGES_CACHED)?)
    };
    cached().unwrap_or_default()
}

/// Replaces the count in a stream of server-sent events, line by line. Lines without usage are passed on unchanged.
#[derive(Debug)]
pub(crate) struct Events {
    cached_tokens: u64,
    /// The start of an incomplete line.
    partial: BytesMut,
    /// Whether the current line is too long and is passed on.
    passing: bool,
}

// === impl Events ===

impl Events {
    pub(crate) fn new(cached_tokens: u64) -> Self {
        Self { cached_tokens, partial: BytesMut::new(), passing: false }
    }

    /// Takes a piece of the stream, and returns the bytes that can be passed on.
    pub(crate) fn push(&mut self, piece: &Bytes) -> Bytes {
        let mut rest = &piece[..];
        // Only the new piece is searched: a line that comes in many pieces would otherwise be read again with each.
        let mut out = BytesMut::with_capacity(self.partial.len() + piece.len());
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, following) = rest.split_at(end + 1);
            rest = following;
            if std::mem::take(&mut self.passing) {
                out.extend_from_slice(line);
            } else if self.partial.is_empty() {
                self.line(line, &mut out);
            } else {
                let mut joined = std::mem::take(&mut self.partial);
                joined.extend_from_slice(line);
                self.line(&joined, &mut out);
            }
        }
        if self.passing {
            out.extend_from_slice(rest);
        } else {
            self.partial.extend_from_slice(rest);
            if self.partial.len() > MAX_LINE_BYTES {
                self.passing = true;
                out.extend_from_slice(&std::mem::take(&mut self.partial));
            }
        }
        out.freeze()
    }

    /// Returns the rest if the stream ends without a line feed.
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
            // Most events have no usage, and are not parsed.
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
        for (answer, expected) in [
            (
                r#"{"usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":1}}}"#,
                r#"{"usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":4}}}"#,
            ),
            (
                r#"{"type":"response.completed","response":{"usage":{"input_tokens_details":{"cached_tokens":1}}},"a":1}"#,
                r#"{"type":"response.completed","response":{"usage":{"input_tokens_details":{"cached_tokens":4}}},"a":1}"#,
            ),
            (
                r#"{"message":{"usage":{"input_tokens":5,"cache_read_input_tokens":0}}}"#,
                r#"{"message":{"usage":{"input_tokens":5,"cache_read_input_tokens":4}}}"#,
            ),
        ] {
            assert_eq!(text(answer).as_deref(), Some(expected));
        }
        for other in [
            r#"{"usage":null}"#,
            r#"{"usage":{"input_tokens":5}}"#,
            r#"{"response":{"a":1}}"#,
            r#"{"a":1}"#,
            "[1]",
            "hello",
            "",
        ] {
            assert_eq!(text(other), None, "{other}");
        }
    }

    #[test]
    fn each_api_says_what_was_cached_in_its_own_place() {
        for (usage, expected) in [
            (r#"{"prompt_tokens_details":{"cached_tokens":3}}"#, 3),
            (r#"{"input_tokens_details":{"cached_tokens":3}}"#, 3),
            (r#"{"cache_read_input_tokens":3}"#, 3),
            (r#"{"prompt_tokens":3}"#, 0),
        ] {
            let answer = format!(r#"{{"usage":{usage}}}"#);
            assert_eq!(cached_tokens(&Object::parse(answer.as_bytes()).unwrap()), expected, "{usage}");
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
            format!("data: {}\"usage\":{{}}\ndata: {{\"usage\":{{}}}}\n", "x".repeat(MAX_LINE_BYTES + 1));
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
