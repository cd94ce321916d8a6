//! Parses tool calls in an answer, as Hermes and Qwen models write them: JSON between `<tool_call>` and `</tool_call>`.

use std::collections::VecDeque;

use longboat_serving::{Choice, Token, Tools};
use serde::Deserialize;
use serde_json::{Deserializer, value::RawValue};

/// The text before a call.
pub(crate) const OPEN: &str = "<tool_call>";
/// The text after a call.
pub(crate) const CLOSE: &str = "</tool_call>";

/// Reads an answer token by token, and separates text from calls. The work is in proportion to the length of the answer.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// Tokens that may be the beginning of a call, or that belong to a call.
    held: VecDeque<Token>,
    /// Their texts as one text.
    text: String,
    /// The progress within the current call. `None` outside of calls.
    call: Option<CallCursor>,
    count: usize,
    /// Whether further calls are left out.
    one_at_most: bool,
    /// Whether the request names the tool.
    is_named: bool,
    /// Whether the answer must be a call and nothing else.
    is_forced: bool,
}

/// A call that is being read.
#[derive(Debug, Default)]
struct CallCursor {
    /// The number of held bytes that were read.
    read: usize,
    /// Whether the next byte belongs to a JSON string, and whether a backslash is before it.
    in_string: bool,
    is_escaped: bool,
    /// A call of so many bytes or more is parsed at an end marker within a string, in case it is no JSON at all.
    suspected: usize,
}

/// A part of an answer.
#[derive(Debug, PartialEq)]
pub(crate) enum AnswerPart {
    Text(Token),
    /// A complete call.
    Call {
        /// The index of the call, from 0.
        index: usize,
        /// The tool.
        name: String,
        /// The arguments, as JSON text.
        arguments: Token,
    },
}

#[derive(Deserialize)]
struct ToolCallJson<'a> {
    name: String,
    #[serde(borrow)]
    arguments: &'a RawValue,
}

// === impl Calls ===

impl Calls {
    /// Creates a parser for an answer to a request with these tools.
    pub(crate) fn new(tools: &Tools) -> Self {
        let is_named = matches!(tools.choice, Choice::Named(_));
        let one_at_most = tools.one_at_most;
        Self { one_at_most, is_named, is_forced: tools.forced().is_some(), ..Self::default() }
    }

    /// Returns the finish reason for the client. As in vLLM, a call of a tool that the request names does not change the
    /// reason.
    pub(crate) fn reason(&self, reason: &'static str) -> &'static str {
        if self.count > 0 && !self.is_named && reason == "stop" { "tool_calls" } else { reason }
    }

    /// Adds the next token. Each token is returned again later. Within a call, its text is empty.
    pub(crate) fn push(&mut self, token: Token) -> Vec<AnswerPart> {
        self.text.push_str(&token.text);
        self.held.push_back(token);
        let mut parts = Vec::new();
        loop {
            if let Some(call) = &mut self.call {
                let Some(end) = call.end(&self.text) else { return parts };
                let in_string = call.in_string;
                let written = self.text[OPEN.len()..end].trim();
                let (name, arguments) = match serde_json::from_str(written) {
                    Ok(ToolCallJson { name, arguments }) => (name, arguments.get().to_owned()),
                    // The end marker is inside a string, so the call continues after it.
                    Err(error) if in_string && error.is_eof() && !written.is_empty() => {
                        call.suspected = 2 * end;
                        continue;
                    }
                    Err(_) => {
                        // This is not a call, so the text stays unchanged.
                        self.call = None;
                        self.text.clear();
                        parts.extend(self.held.drain(..).map(AnswerPart::Text));
                        return parts;
                    }
                };
                self.call = None;
                let written = self.cut(end + CLOSE.len());
                parts.extend(self.complete(written, name, arguments));
            } else if let Some(start) = self.text.find(OPEN) {
                parts.extend(self.cut(start).into_iter().map(|token| self.outside(token)));
                self.call = Some(CallCursor { read: OPEN.len(), ..CallCursor::default() });
            } else {
                let text = &self.text;
                let open = (1..OPEN.len()).rev().find(|length| text.ends_with(&OPEN[..*length])).unwrap_or(0);
                parts.extend(self.cut(text.len() - open).into_iter().map(|token| self.outside(token)));
                return parts;
            }
        }
    }

    /// Returns the held tokens at the end of the answer. As in vLLM, a call needs no end marker there. An incomplete call becomes
    /// text, unless the answer had to be a call: then its existing part is returned as a call.
    pub(crate) fn rest(&mut self) -> Vec<AnswerPart> {
        let held: Vec<Token> = self.held.drain(..).collect();
        let text = std::mem::take(&mut self.text);
        let is_inside = self.call.take().is_some();
        if self.is_forced && self.count == 0 {
            return match call_prefix(&text) {
                Some((name, arguments)) => self.complete(held, name, arguments),
                None => held.into_iter().map(silent).collect(),
            };
        }
        if !is_inside {
            return held.into_iter().map(|token| self.outside(token)).collect();
        }
        match serde_json::from_str(text[OPEN.len()..].trim()) {
            Ok(ToolCallJson { name, arguments }) => self.complete(held, name, arguments.get().to_owned()),
            Err(_) => held.into_iter().map(AnswerPart::Text).collect(),
        }
    }

    /// Returns the tokens of a call without their texts, and the call with the last one, unless it is one too many.
    fn complete(&mut self, mut tokens: Vec<Token>, name: String, arguments: String) -> Vec<AnswerPart> {
        let index = self.count;
        self.count += 1;
        let last = tokens.pop();
        let mut parts: Vec<AnswerPart> = tokens.into_iter().map(silent).collect();
        parts.extend(last.map(|last| {
            if self.one_at_most && index > 0 {
                return silent(last);
            }
            AnswerPart::Call { index, name, arguments: Token { text: arguments, ..last } }
        }));
        parts
    }

    /// Returns text outside of calls. The text before the first call is a part of the answer. vLLM drops the text after a
    /// call.
    fn outside(&self, token: Token) -> AnswerPart {
        if self.count == 0 { AnswerPart::Text(token) } else { silent(token) }
    }

    /// Removes this many bytes from the held tokens. A token on the boundary is divided, and counts with the first part.
    fn cut(&mut self, mut length: usize) -> Vec<Token> {
        self.text.drain(..length);
        let mut tokens = Vec::new();
        while length > 0
            && let Some(mut token) = self.held.pop_front()
        {
            if token.text.len() > length {
                let text = token.text.split_off(length);
                self.held.push_front(Token {
                    text,
                    decoded: String::new(),
                    logprob: token.logprob,
                    top: Vec::new(),
                });
            }
            length -= token.text.len();
            tokens.push(token);
        }
        tokens
    }
}

// === impl CallCursor ===

impl CallCursor {
    /// Reads on to the next end marker, and returns where it begins: one outside of strings, or the first one within a
    /// string after so many bytes that the call is suspected to be no JSON. Returns `None` if more of the answer must come
    /// first.
    fn end(&mut self, text: &str) -> Option<usize> {
        let bytes = text.as_bytes();
        while let Some(byte) = bytes.get(self.read) {
            let at = self.read;
            let rest = &bytes[at..];
            let may_end = !self.in_string || at >= self.suspected;
            if *byte == b'<' && may_end && rest.len() < CLOSE.len() && CLOSE.as_bytes().starts_with(rest) {
                return None;
            }
            self.read += 1;
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = self.in_string,
                b'"' => self.in_string = !self.in_string,
                b'<' if may_end && rest.starts_with(CLOSE.as_bytes()) => return Some(at),
                _ => {}
            }
        }
        None
    }
}

/// Returns a token without its text. The client is still told of it, because it was generated.
fn silent(token: Token) -> AnswerPart {
    AnswerPart::Text(Token { text: String::new(), ..token })
}

/// Returns the name and the available arguments of an incomplete forced call. Returns `None` if the name is incomplete. The
/// call has the form of `shape::Form::call`.
fn call_prefix(text: &str) -> Option<(String, String)> {
    let call = text.strip_prefix(OPEN)?.trim_start().strip_prefix("{\"name\": ")?;
    let mut names = Deserializer::from_str(call).into_iter::<String>();
    let name = names.next()?.ok()?;
    let rest = call.get(names.byte_offset()..)?.strip_prefix(", \"arguments\": ")?;
    let complete = Deserializer::from_str(rest).into_iter::<&RawValue>().next().and_then(Result::ok);
    Some((name, complete.map_or(rest, RawValue::get).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads an answer in these pieces. Returns its text and its calls.
    fn read(pieces: &[&str]) -> (String, Vec<(String, String)>) {
        read_by(Calls::default(), pieces)
    }

    fn read_by(mut calls: Calls, pieces: &[&str]) -> (String, Vec<(String, String)>) {
        let token = |text: &&str| Token {
            text: (*text).to_owned(),
            decoded: String::new(),
            logprob: 0.0,
            top: Vec::new(),
        };
        let mut parts: Vec<AnswerPart> = pieces.iter().flat_map(|text| calls.push(token(text))).collect();
        parts.extend(calls.rest());
        let (mut text, mut found) = (String::new(), Vec::new());
        for part in parts {
            match part {
                AnswerPart::Text(token) => text += &token.text,
                AnswerPart::Call { index, name, arguments } => {
                    assert_eq!(index, found.len());
                    found.push((name, arguments.text));
                }
            }
        }
        assert_eq!(calls.reason("stop"), if found.is_empty() { "stop" } else { "tool_calls" });
        assert_eq!(calls.reason("length"), "length");
        (text, found)
    }

    fn call(name: &str, arguments: &str) -> (String, String) {
        (name.to_owned(), arguments.to_owned())
    }

    #[test]
    fn calls_are_found_however_the_answer_is_cut() {
        let answer = "Let me see.<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>\n\
                      <tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>";
        let expected = ("Let me see.".to_owned(), vec![call("add", "{\"a\": 1}"), call("now", "{}")]);
        assert_eq!(read(&[answer]), expected);
        let letters: Vec<String> = answer.chars().map(String::from).collect();
        assert_eq!(read(&letters.iter().map(String::as_str).collect::<Vec<_>>()), expected);
        let (first, second) = answer.split_at(17);
        assert_eq!(read(&[first, second]), expected);
    }

    #[test]
    fn an_ending_within_a_string_ends_no_call() {
        let call_of =
            |text: &str| format!("<tool_call>\n{{\"name\": \"say\", \"arguments\": {text}}}\n</tool_call>");
        let arguments = r#"{"a": "</tool_call>", "b": "x</tool_call></tool_call>"}"#;
        let answer = call_of(arguments) + &call_of("{}");
        let expected = (String::new(), vec![call("say", arguments), call("say", "{}")]);
        assert_eq!(read(&[&answer]), expected);
        let letters: Vec<String> = answer.chars().map(String::from).collect();
        assert_eq!(read(&letters.iter().map(String::as_str).collect::<Vec<_>>()), expected);
    }

    #[test]
    fn a_call_with_many_endings_in_its_strings_is_parsed_a_few_times() {
        let mut calls = Calls::default();
        let token = |text: &str| Token {
            text: text.to_owned(),
            decoded: String::new(),
            logprob: 0.0,
            top: Vec::new(),
        };
        let endings = 1000;
        let (start, end) = ("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"", "\"}}</tool_call>");
        assert!(calls.push(token(start)).is_empty());
        let mut parsed = 0;
        for _ in 0..endings {
            let before = calls.call.as_ref().unwrap().suspected;
            assert!(calls.push(token(CLOSE)).is_empty());
            parsed += usize::from(calls.call.as_ref().unwrap().suspected != before);
        }
        assert!((1..20).contains(&parsed), "{parsed}");
        let parts = calls.push(token(end));
        let arguments = format!("{{\"a\": \"{}\"}}", CLOSE.repeat(endings));
        let last = parts.last().unwrap();
        assert!(matches!(last, AnswerPart::Call { arguments: found, .. } if found.text == arguments));
        assert_eq!(parts.len(), endings + 2);
    }

    #[test]
    fn invalid_json_does_not_hide_the_calls_after_it() {
        let fine = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";
        for broken in [
            "<tool_call>a \"b</tool_call>",
            "<tool_call>{\"name\": \"f\"</tool_call>",
            "<tool_call></tool_call>",
        ] {
            let answer = format!("{broken}{fine}");
            let letters: Vec<String> = answer.chars().map(String::from).collect();
            let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
            assert_eq!(read(&letters), (broken.to_owned(), vec![call("now", "{}")]), "{broken}");
        }
    }

    #[test]
    fn a_forced_call_that_is_cut_is_a_call_as_far_as_it_goes() {
        let forced = || Calls { is_forced: true, ..Calls::default() };
        let whole = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>";
        let start = whole.find("{\"a").unwrap();
        for length in 1..whole.len() {
            let letters: Vec<String> = whole[..length].chars().map(String::from).collect();
            let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
            let (text, calls) = read_by(forced(), &letters);
            assert_eq!(text, "", "{length}");
            let arguments = whole.get(start..length.min(start + "{\"a\": 1}".len()));
            let expected: Vec<_> = arguments.into_iter().map(|arguments| call("add", arguments)).collect();
            assert_eq!(calls, expected, "{length}");
        }
    }

    #[test]
    fn without_parallel_tool_calls_only_the_first_call_is_returned() {
        let one = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";
        let calls = Calls { one_at_most: true, ..Calls::default() };
        assert_eq!(read_by(calls, &[one, one]), (String::new(), vec![call("now", "{}")]));
        assert_eq!(read_by(Calls::default(), &[one, one]).1.len(), 2);
    }

    #[test]
    fn a_complete_call_at_the_end_of_an_answer_needs_no_end_marker() {
        let answer = "Well.<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n";
        for cut in [answer.len(), 20, 40] {
            let pieces = answer.split_at(cut);
            assert_eq!(read(&[pieces.0, pieces.1]), ("Well.".to_owned(), vec![call("now", "{}")]));
        }
        assert_eq!(read(&[answer, "</tool"]).1, [], "it may have gone on");
    }

    #[test]
    fn invalid_calls_stay_text() {
        for text in ["a < b", "<tool", "<tool_call>{\"name\": \"add\"", "<tool_call>sorry</tool_call>"] {
            assert_eq!(read(&[text]), (text.to_owned(), Vec::new()), "{text}");
        }
    }
}
