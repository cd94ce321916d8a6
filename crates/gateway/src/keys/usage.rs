//! Reads the usage that an engine reports from its response, while the response passes.
//!
//! A response may be long, so it is never collected: of a JSON object only the member `usage` is, and of a stream of events one
//! event at a time.

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::Value;

/// The longest event of a stream that is read. A longer one passes unread.
const MAX_EVENT_BYTES: usize = 1 << 20;
/// The longest value of `usage` that is read.
const MAX_USAGE_BYTES: usize = 16 << 10;

/// The tokens of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub(crate) prompt: u64,
    pub(crate) completion: u64,
}

/// The most bytes of text that count as one token of a prompt, if no engine has counted. llm-d's router estimates it so, too.
pub(crate) const BYTES_PER_TOKEN: u64 = 4;

/// Reads the usage of one response.
#[derive(Debug)]
pub(crate) enum UsageReader {
    /// A JSON object.
    Json(JsonReader),
    /// A stream of events.
    Events(EventReader),
    /// A response of another kind, which has no usage.
    Opaque,
}

/// Finds the member `usage` of the outermost JSON object.
#[derive(Debug, Default)]
pub(crate) struct JsonReader {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The last string of the outermost object: the name of a member, if a colon follows.
    name: Vec<u8>,
    /// The value of `usage`, while it is read.
    value: Option<Vec<u8>>,
    tokens: Option<Tokens>,
}

/// Reads events, and hides the one with the usage if the client has not asked for it.
#[derive(Debug, Default)]
pub(crate) struct EventReader {
    hides_usage: bool,
    /// The beginning of an event that has not come whole.
    pending: BytesMut,
    /// Whether the present event is too long to be read.
    is_long: bool,
    tokens: Option<Tokens>,
    /// Events with text, which are counted if no usage comes.
    events: u64,
}

impl Tokens {
    /// Estimates the tokens of a request whose engine has reported none, from the text of its prompt and from the events of
    /// its stream.
    pub(crate) fn estimated(prompt_bytes: u64, events: u64) -> Self {
        Self { prompt: prompt_bytes.div_ceil(BYTES_PER_TOKEN), completion: events }
    }

    /// Reads a `usage` of any of OpenAI's APIs.
    fn of(usage: &Value) -> Option<Self> {
        let count = |names: [&str; 2]| names.iter().find_map(|name| usage[*name].as_u64());
        let prompt = count(["prompt_tokens", "input_tokens"])?;
        let completion = count(["completion_tokens", "output_tokens"]).unwrap_or(0);
        Some(Self { prompt, completion })
    }
}

// === impl UsageReader ===

impl UsageReader {
    /// Creates a reader for a response with this Content-Type.
    pub(crate) fn new(content_type: &str, hides_usage: bool) -> Self {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        if kind.eq_ignore_ascii_case("text/event-stream") {
            Self::Events(EventReader { hides_usage, ..EventReader::default() })
        } else if kind.eq_ignore_ascii_case("application/json") {
            Self::Json(JsonReader::default())
        } else {
            Self::Opaque
        }
    }

    /// Reads a part of the response. Returns what the client gets of it, which may be nothing.
    pub(crate) fn read(&mut self, part: Bytes) -> Bytes {
        match self {
            Self::Json(reader) => {
                part.iter().for_each(|byte| reader.step(*byte));
                part
            }
            Self::Events(reader) => reader.read(&part),
            Self::Opaque => part,
        }
    }

    /// Returns what the client gets of an event that has not come whole.
    pub(crate) fn rest(&mut self) -> Bytes {
        match self {
            Self::Events(reader) => reader.pending.split().freeze(),
            Self::Json(_) | Self::Opaque => Bytes::new(),
        }
    }

    /// Returns the tokens that the engine has reported.
    pub(crate) fn tokens(&self) -> Option<Tokens> {
        match self {
            Self::Json(reader) => reader.tokens,
            Self::Events(reader) => reader.tokens,
            Self::Opaque => None,
        }
    }

    /// The events of a stream that the client has got.
    pub(crate) fn events(&self) -> u64 {
        match self {
            Self::Events(reader) => reader.events,
            Self::Json(_) | Self::Opaque => 0,
        }
    }
}

// === impl JsonReader ===

impl JsonReader {
    fn step(&mut self, byte: u8) {
        let before = self.depth;
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            if self.in_string && self.depth == 1 && self.value.is_none() && self.name.len() <= b"usage".len()
            {
                self.name.push(byte);
            }
        } else {
            match byte {
                b'"' => {
                    self.in_string = true;
                    if self.depth == 1 && self.value.is_none() {
                        self.name.clear();
                    }
                }
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                b':' if self.depth == 1 && self.value.is_none() && self.name == b"usage" => {
                    self.value = Some(Vec::new());
                    return;
                }
                _ => {}
            }
        }
        let Some(value) = &mut self.value else { return };
        // The value ends before the comma or the bracket that follows it in the outermost object.
        let ends = !self.in_string && before == 1 && matches!(byte, b',' | b'}');
        if !ends && value.len() < MAX_USAGE_BYTES {
            value.push(byte);
        } else if ends {
            let found = serde_json::from_slice::<Value>(value).ok();
            self.tokens = found.as_ref().and_then(Tokens::of).or(self.tokens);
            self.value = None;
            self.name.clear();
        }
    }
}

// === impl EventReader ===

impl EventReader {
    fn read(&mut self, part: &[u8]) -> Bytes {
        // An event may be hidden, so each is held until its end.
        let mut passed = BytesMut::with_capacity(self.pending.len() + part.len());
        for line in part.split_inclusive(|byte| *byte == b'\n') {
            if self.is_long {
                passed.extend_from_slice(line);
                // An event ends with an empty line; without one, the rest of the stream passes unread.
                self.is_long = line != b"\n" && line != b"\r\n";
                continue;
            }
            self.pending.extend_from_slice(line);
            if self.pending.ends_with(b"\n\n") || self.pending.ends_with(b"\n\r\n") {
                let event = self.pending.split();
                if !self.hides_event(&event) {
                    passed.extend_from_slice(&event);
                }
            } else if self.pending.len() > MAX_EVENT_BYTES {
                passed.extend_from_slice(&self.pending.split());
                self.is_long = true;
            }
        }
        passed.freeze()
    }

    /// Reads an event. Returns whether the client must not see it.
    fn hides_event(&mut self, event: &[u8]) -> bool {
        #[derive(Deserialize)]
        struct Event {
            #[serde(default)]
            usage: Value,
            choices: Option<Vec<serde::de::IgnoredAny>>,
            /// The whole response, at the end of a stream of `/v1/responses`.
            #[serde(default)]
            response: Response,
        }
        #[derive(Deserialize, Default)]
        struct Response {
            #[serde(default)]
            usage: Value,
        }
        let lines = event.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let data: Vec<u8> = lines.filter_map(|line| line.strip_prefix(b"data:")).flatten().copied().collect();
        let Ok(Event { usage, choices, response }) = serde_json::from_slice(&data) else { return false };
        if let Some(tokens) = Tokens::of(&usage).or_else(|| Tokens::of(&response.usage)) {
            self.tokens = Some(tokens);
            return self.hides_usage && choices.is_some_and(|choices| choices.is_empty());
        }
        self.events += 1;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a response in parts of this many bytes.
    fn read(kind: &str, hides: bool, text: &str, size: usize) -> (String, Tokens) {
        let mut reader = UsageReader::new(kind, hides);
        let mut seen = Vec::new();
        for part in text.as_bytes().chunks(size) {
            seen.extend_from_slice(&reader.read(Bytes::copy_from_slice(part)));
        }
        seen.extend_from_slice(&reader.rest());
        let counted = Tokens { prompt: 0, completion: reader.events() };
        (String::from_utf8(seen).unwrap(), reader.tokens().unwrap_or(counted))
    }

    #[test]
    fn the_usage_of_a_json_answer_is_found_wherever_it_is() {
        let tokens = |prompt, completion| Tokens { prompt, completion };
        for (text, expected) in [
            (
                r#"{"id":"a","usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7},"x":1}"#,
                tokens(3, 4),
            ),
            (r#"{"usage" : {"input_tokens":3,"output_tokens":4}}"#, tokens(3, 4)),
            (
                r#"{"usage":{"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":9},"completion_tokens":1}}"#,
                tokens(3, 1),
            ),
            // Not the member of the outermost object: text of the model, or a member of another object.
            (
                r#"{"choices":[{"text":"\"usage\":{\"prompt_tokens\":9}","usage":{"prompt_tokens":9}}]}"#,
                tokens(0, 0),
            ),
            (r#"{"a":"usage","b":{"usage":{"prompt_tokens":9}},"usage":null}"#, tokens(0, 0)),
            (r#"{"usage":{"prompt_tokens":3"#, tokens(0, 0)),
            ("}}]]:\"\\", tokens(0, 0)),
        ] {
            for size in [1, 7, text.len()] {
                assert_eq!(
                    read("application/json; charset=utf-8", false, text, size),
                    (text.to_owned(), expected)
                );
            }
        }
    }

    #[test]
    fn the_event_with_the_usage_is_hidden_from_clients_that_have_not_asked_for_it() {
        let first = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
        let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n";
        let done = "data: [DONE]\n\n";
        let all = format!("{first}{usage}{done}");
        let tokens = Tokens { prompt: 3, completion: 4 };
        for size in [1, 5, all.len()] {
            assert_eq!(read("text/event-stream", false, &all, size), (all.clone(), tokens));
            assert_eq!(read("text/event-stream", true, &all, size), (format!("{first}{done}"), tokens));
        }
        // Engines that report no usage: events are counted. A stream that breaks off passes to its last byte.
        let cut = format!("{first}{first}data: {{\"cho");
        let counted = Tokens { prompt: 0, completion: 2 };
        assert_eq!(read("text/event-stream", true, &cut, 3), (cut.clone(), counted));
        let responses = "event: response.completed\r\ndata: {\"response\":{\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}}\r\n\r\n";
        assert_eq!(read("text/event-stream", true, responses, 4), (responses.to_owned(), tokens));
    }

    #[test]
    fn an_endless_event_passes_without_being_kept() {
        let mut reader = UsageReader::new("text/event-stream", true);
        let part = Bytes::from(vec![b'x'; 1 << 16]);
        let passed: usize = (0..64).map(|_| reader.read(part.clone()).len()).sum();
        assert!(passed + 2 * MAX_EVENT_BYTES > 64 << 16, "{passed}");
        let usage = "\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n";
        reader.read(Bytes::from_static(usage.as_bytes()));
        assert_eq!(reader.tokens(), Some(Tokens { prompt: 3, completion: 4 }));
    }
}
