//! Parses tool calls in an answer, as Hermes and Qwen models write them: JSON between `<tool_call>` and `</tool_call>`.

use longboat_serving::{Choice, Token, Tools};
use serde::Deserialize;
use serde_json::{Deserializer, value::RawValue};

/// The text before a call.
pub(crate) const OPEN: &str = "<tool_call>";
/// The text after a call.
pub(crate) const CLOSE: &str = "</tool_call>";

/// Reads an answer token by token, and separates text from calls.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "three say what the request asks for, one where the answer is"
)]
pub(crate) struct Calls {
    /// Tokens that may be the beginning of a call, or that belong to a call.
    held: Vec<Token>,
    inside: bool,
    /// The number of held bytes in which the call does not end: an end marker in them belongs to a string.
    searched: usize,
    count: usize,
    /// Whether further calls are left out.
    one_at_most: bool,
    /// Whether the request names the tool.
    is_named: bool,
    /// Whether the answer must be a call and nothing else.
    is_forced: bool,
}

/// A part of an answer.
#[derive(Debug, PartialEq)]
pub(crate) enum Said {
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
struct Written<'a> {
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
    pub(crate) fn push(&mut self, token: Token) -> Vec<Said> {
        self.held.push(token);
        let mut said = Vec::new();
        loop {
            let text: String = self.held.iter().map(|token| token.text.as_str()).collect();
            if self.inside {
                let after = text.get(self.searched..).unwrap_or_default();
                let Some(end) = after.find(CLOSE).map(|at| self.searched + at) else { return said };
                let call = text.get(OPEN.len()..end).unwrap_or_default();
                let Written { name, arguments } = match serde_json::from_str(call.trim()) {
                    Ok(written) => written,
                    // The end marker is inside a string, so the call continues after it.
                    Err(error) if error.is_eof() && !call.trim().is_empty() => {
                        self.searched = end + CLOSE.len();
                        continue;
                    }
                    Err(_) => {
                        // This is not a call, so the text stays unchanged.
                        (self.inside, self.searched) = (false, 0);
                        said.extend(self.held.drain(..).map(Said::Text));
                        return said;
                    }
                };
                let (arguments, index) = (arguments.get().to_owned(), self.count);
                (self.inside, self.searched, self.count) = (false, 0, self.count + 1);
                let mut written = self.cut(end + CLOSE.len());
                let last = written.pop();
                said.extend(written.into_iter().map(|token| self.outside(token)));
                if let Some(last) = last.clone().filter(|_| self.one_at_most && index > 0) {
                    said.push(Said::Text(Token { text: String::new(), ..last }));
                } else if let Some(last) = last {
                    said.push(Said::Call { index, name, arguments: Token { text: arguments, ..last } });
                }
            } else if let Some(start) = text.find(OPEN) {
                said.extend(self.cut(start).into_iter().map(|token| self.outside(token)));
                self.inside = true;
            } else {
                let open = (1..OPEN.len()).rev().find(|length| text.ends_with(&OPEN[..*length])).unwrap_or(0);
                said.extend(self.cut(text.len() - open).into_iter().map(|token| self.outside(token)));
                return said;
            }
        }
    }

    /// Returns the held tokens at the end of the answer. An incomplete call becomes text, unless the answer had to be a call:
    /// then its existing part is returned as a call.
    pub(crate) fn rest(&mut self) -> Vec<Said> {
        let held: Vec<Token> = self.held.drain(..).collect();
        if self.is_forced && self.count == 0 {
            return self.unfinished(held);
        }
        let inside = std::mem::take(&mut self.inside);
        held.into_iter().map(|token| if inside { Said::Text(token) } else { self.outside(token) }).collect()
    }

    fn unfinished(&mut self, mut held: Vec<Token>) -> Vec<Said> {
        let text: String = held.iter().map(|token| token.text.as_str()).collect();
        let last = held.pop();
        let silent = |token| Said::Text(Token { text: String::new(), ..token });
        let mut said: Vec<Said> = held.into_iter().map(silent).collect();
        said.extend(last.map(|last| match begun(&text) {
            Some((name, arguments)) => {
                self.count = 1;
                Said::Call { index: 0, name, arguments: Token { text: arguments, ..last } }
            }
            None => silent(last),
        }));
        said
    }

    /// Returns text outside of calls. The text before the first call is a part of the answer. vLLM drops the text after a call.
    fn outside(&self, token: Token) -> Said {
        Said::Text(if self.count == 0 { token } else { Token { text: String::new(), ..token } })
    }

    /// Removes this many bytes from the held tokens. A token on the boundary is divided, and counts with the first part.
    fn cut(&mut self, mut length: usize) -> Vec<Token> {
        let mut taken = Vec::new();
        while length > 0
            && let Some(token) = self.held.first_mut()
        {
            if token.text.len() > length {
                let rest = token.text.split_off(length);
                let first = std::mem::replace(&mut token.text, rest);
                taken.push(Token {
                    text: first,
                    logprob: token.logprob,
                    top: std::mem::take(&mut token.top),
                });
                return taken;
            }
            length -= token.text.len();
            taken.push(self.held.remove(0));
        }
        taken
    }
}

/// Returns the name and the available arguments of an incomplete forced call. Returns `None` if the name is incomplete. The
/// call has the form of `shape::Form::call`.
fn begun(text: &str) -> Option<(String, String)> {
    let call = text.strip_prefix(OPEN)?.trim_start().strip_prefix("{\"name\": ")?;
    let mut names = Deserializer::from_str(call).into_iter::<String>();
    let name = names.next()?.ok()?;
    let rest = call.get(names.byte_offset()..)?.strip_prefix(", \"arguments\": ")?;
    let whole = Deserializer::from_str(rest).into_iter::<&RawValue>().next().and_then(Result::ok);
    Some((name, whole.map_or(rest, RawValue::get).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads an answer in these pieces. Returns its text and its calls.
    fn read(pieces: &[&str]) -> (String, Vec<(String, String)>) {
        read_by(Calls::default(), pieces)
    }

    fn read_by(mut calls: Calls, pieces: &[&str]) -> (String, Vec<(String, String)>) {
        let token = |text: &&str| Token { text: (*text).to_owned(), logprob: 0.0, top: Vec::new() };
        let mut said: Vec<Said> = pieces.iter().flat_map(|text| calls.push(token(text))).collect();
        said.extend(calls.rest());
        let (mut text, mut found) = (String::new(), Vec::new());
        for said in said {
            match said {
                Said::Text(token) => text += &token.text,
                Said::Call { index, name, arguments } => {
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
        let (one, other) = answer.split_at(17);
        assert_eq!(read(&[one, other]), expected);
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
    fn further_calls_are_left_out_where_one_was_asked_for() {
        let one = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";
        let calls = Calls { one_at_most: true, ..Calls::default() };
        assert_eq!(read_by(calls, &[one, one]), (String::new(), vec![call("now", "{}")]));
        assert_eq!(read_by(Calls::default(), &[one, one]).1.len(), 2);
    }

    #[test]
    fn what_is_no_call_stays_text() {
        for text in ["a < b", "<tool", "<tool_call>{\"name\": \"add\"", "<tool_call>sorry</tool_call>"] {
            assert_eq!(read(&[text]), (text.to_owned(), Vec::new()), "{text}");
        }
    }
}
