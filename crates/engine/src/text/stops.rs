//! Detects stop texts, which may be spread over several tokens.

use std::collections::VecDeque;

use longboat_serving::Token;

/// Holds tokens back while they may be the beginning of a stop text.
#[derive(Debug)]
pub(crate) struct Stops {
    texts: Vec<String>,
    keeps: bool,
    held: VecDeque<Token>,
}

/// The result of a token.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Ending {
    /// Tokens that certainly belong to the answer.
    pub(crate) tokens: Vec<Token>,
    /// The stop text that ended the answer.
    pub(crate) stop: Option<String>,
}

// === impl Stops ===

impl Stops {
    /// With `keeps`, the stop text is a part of the answer.
    pub(crate) fn new(texts: Vec<String>, keeps: bool) -> Self {
        Self { texts, keeps, held: VecDeque::new() }
    }

    pub(crate) fn push(&mut self, token: Token) -> Ending {
        self.held.push_back(token);
        let text: String = self.held.iter().map(|token| token.text.as_str()).collect();
        let first = self.texts.iter().filter_map(|stop| Some((text.find(stop.as_str())?, stop))).min();
        if let Some((at, stop)) = first {
            let stop = stop.clone();
            let end = if self.keeps { at + stop.len() } else { at };
            return Ending { tokens: self.release(end, true), stop: Some(stop) };
        }
        let begins = |length: &usize| {
            let tail = text.get(text.len() - length..);
            tail.is_some_and(|tail| self.texts.iter().any(|stop| stop.starts_with(tail)))
        };
        let longest = self.texts.iter().map(String::len).max().unwrap_or(0).min(text.len());
        let open = (1..=longest).rev().find(begins).unwrap_or(0);
        Ending { tokens: self.release(text.len() - open, false), stop: None }
    }

    /// Returns the held tokens when the answer ends for another reason.
    pub(crate) fn rest(&mut self) -> Vec<Token> {
        self.held.drain(..).collect()
    }

    /// Returns the held tokens within the first `length` bytes. With `cuts`, drops the text after them.
    fn release(&mut self, length: usize, cuts: bool) -> Vec<Token> {
        let mut released = Vec::new();
        let mut at = 0;
        while let Some(mut token) = self.held.pop_front() {
            let end = at + token.text.len();
            if end <= length {
                released.push(token);
            } else if cuts {
                token.text.truncate(length - at);
                if !token.text.is_empty() {
                    released.push(token);
                }
                self.held.clear();
            } else {
                self.held.push_front(token);
                break;
            }
            at = end;
        }
        released
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Token {
        Token { text: text.into(), logprob: 0.0, top: Vec::new() }
    }

    fn answer(stops: &[&str], keeps: bool, pieces: &[&str]) -> (String, Option<String>) {
        let mut stops = Stops::new(stops.iter().map(|stop| (*stop).to_owned()).collect(), keeps);
        let mut text = String::new();
        for piece in pieces {
            let ending = stops.push(token(piece));
            text.extend(ending.tokens.iter().map(|token| token.text.as_str()));
            if ending.stop.is_some() {
                return (text, ending.stop);
            }
        }
        text.extend(stops.rest().iter().map(|token| token.text.as_str()));
        (text, None)
    }

    #[test]
    fn a_stop_text_ends_an_answer_however_it_is_cut() {
        assert_eq!(answer(&["\n\n"], false, &["a", "\n", "\nb"]), ("a".into(), Some("\n\n".into())));
        assert_eq!(answer(&["END"], true, &["one E", "N", "D two"]), ("one END".into(), Some("END".into())));
        assert_eq!(answer(&["END"], false, &["E", "N", "x", "EN"]), ("ENxEN".into(), None));
        assert_eq!(answer(&["b", "ab"], false, &["xab"]), ("x".into(), Some("ab".into())));
        assert_eq!(answer(&["é"], false, &["caf", "é!"]), ("caf".into(), Some("é".into())));
    }
}
