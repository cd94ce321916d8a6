//! Calls of tools in an answer, as Hermes and Qwen models write them: JSON between `<tool_call>` and `</tool_call>`.

use longboat_serving::{Choice, Token, Tools};
use serde::Deserialize;
use serde_json::value::RawValue;

/// What a call begins with.
pub(crate) const OPEN: &str = "<tool_call>";
/// What a call ends with.
pub(crate) const CLOSE: &str = "</tool_call>";

/// Reads an answer token by token, and tells text from calls.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// Tokens that may be the beginning of a call, or are part of one.
    held: Vec<Token>,
    inside: bool,
    count: usize,
    /// Whether the request names the tool.
    is_named: bool,
}

/// A part of an answer.
#[derive(Debug, PartialEq)]
pub(crate) enum Said {
    Text(Token),
    /// A whole call.
    Call {
        /// Which one, counted from 0.
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
    /// Before the first token of an answer that these tools are for.
    pub(crate) fn new(tools: &Tools) -> Self {
        Self { is_named: matches!(tools.choice, Choice::Named(_)), ..Self::default() }
    }

    /// Why the answer ended, as clients are told. As in vLLM, a call that the request names is no reason.
    pub(crate) fn reason(&self, reason: &'static str) -> &'static str {
        if self.count > 0 && !self.is_named && reason == "stop" { "tool_calls" } else { reason }
    }

    /// Takes the next token. Each token comes out again, with what it says or, within a call, with an empty text.
    pub(crate) fn push(&mut self, token: Token) -> Vec<Said> {
        self.held.push(token);
        let mut said = Vec::new();
        loop {
            let text: String = self.held.iter().map(|token| token.text.as_str()).collect();
            if self.inside {
                let Some(end) = text.find(CLOSE) else { return said };
                let call = text.get(OPEN.len()..end).unwrap_or_default();
                let Ok(Written { name, arguments }) = serde_json::from_str(call.trim()) else {
                    // No call after all: it is text, as it stands.
                    self.inside = false;
                    said.extend(self.held.drain(..).map(Said::Text));
                    return said;
                };
                let (arguments, index) = (arguments.get().to_owned(), self.count);
                (self.inside, self.count) = (false, self.count + 1);
                let mut written = self.cut(end + CLOSE.len());
                let last = written.pop();
                said.extend(written.into_iter().map(|token| self.outside(token)));
                if let Some(last) = last {
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

    /// What was held back, at the end of the answer: a call that is not complete is text.
    pub(crate) fn rest(&mut self) -> Vec<Said> {
        let held: Vec<Token> = self.held.drain(..).collect();
        let inside = std::mem::take(&mut self.inside);
        held.into_iter().map(|token| if inside { Said::Text(token) } else { self.outside(token) }).collect()
    }

    /// Text beside calls. Before the first one it is the answer's; after it, vLLM drops it.
    fn outside(&self, token: Token) -> Said {
        Said::Text(if self.count == 0 { token } else { Token { text: String::new(), ..token } })
    }

    /// Takes so many bytes of what is held. A token that lies on both sides is cut, and counts on the first.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The text, and the calls, of an answer in these pieces.
    fn read(pieces: &[&str]) -> (String, Vec<(String, String)>) {
        let mut calls = Calls::default();
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
    fn what_is_no_call_stays_text() {
        for text in ["a < b", "<tool", "<tool_call>{\"name\": \"add\"", "<tool_call>sorry</tool_call>"] {
            assert_eq!(read(&[text]), (text.to_owned(), Vec::new()), "{text}");
        }
    }
}
