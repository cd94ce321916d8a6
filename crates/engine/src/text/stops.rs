//! Detects stop texts, which may be spread over several tokens.

use std::{collections::VecDeque, sync::Arc};

use longboat_serving::Token;

/// A stop text, with what is needed to look at each byte of an answer once.
#[derive(Debug)]
struct Pattern {
    text: String,
    /// For each length of a beginning of the text: the length of the longest shorter beginning that it ends with.
    shorter: Vec<usize>,
}

/// The stop texts of a request, which its answers share.
#[derive(Debug, Clone)]
pub(crate) struct Patterns(Arc<[Pattern]>);

/// Holds tokens back while they may be the beginning of a stop text.
#[derive(Debug)]
pub(crate) struct Stops {
    patterns: Patterns,
    /// For each text, how much of its beginning the answer so far ends with.
    matched: Vec<usize>,
    keeps: bool,
    held: VecDeque<Token>,
    /// Bytes of what is held.
    length: usize,
}

/// The result of a token.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct StopOutcome {
    /// Tokens that certainly belong to the answer.
    pub(crate) tokens: Vec<Token>,
    /// The stop text that ended the answer.
    pub(crate) stop: Option<String>,
}

// === impl Pattern ===

impl Pattern {
    /// Takes a text that is not empty.
    fn new(text: String) -> Self {
        let mut pattern = Self { shorter: vec![0; text.len() + 1], text };
        let mut matched = 0;
        for length in 1..pattern.text.len() {
            matched = pattern.after(matched, pattern.text.as_bytes()[length]);
            pattern.shorter[length + 1] = matched;
        }
        pattern
    }

    /// Returns the length of the longest prefix of the stop text with which an answer ends after one more byte. `matched` is
    /// this length before the byte, and shorter than the text.
    fn after(&self, mut matched: usize, byte: u8) -> usize {
        let text = self.text.as_bytes();
        while matched > 0 && text[matched] != byte {
            matched = self.shorter[matched];
        }
        if text[matched] == byte { matched + 1 } else { 0 }
    }
}

// === impl Patterns ===

impl Patterns {
    /// Takes texts that are not empty.
    pub(crate) fn new(texts: &[String]) -> Self {
        Self(texts.iter().cloned().map(Pattern::new).collect())
    }
}

// === impl Stops ===

impl Stops {
    /// With `keeps`, the text that ends an answer is part of it.
    pub(crate) fn new(patterns: Patterns, keeps: bool) -> Self {
        let matched = vec![0; patterns.0.len()];
        Self { patterns, matched, keeps, held: VecDeque::new(), length: 0 }
    }

    pub(crate) fn push(&mut self, token: Token) -> StopOutcome {
        let before = self.length;
        self.length += token.text.len();
        let mut first: Option<(usize, &Pattern)> = None;
        for (pattern, matched) in self.patterns.0.iter().zip(&mut self.matched) {
            for (at, byte) in token.text.bytes().enumerate() {
                *matched = pattern.after(*matched, byte);
                if *matched == pattern.text.len() {
                    let found = (before + at + 1 - *matched, pattern);
                    let is_before =
                        |other: &(usize, &Pattern)| (found.0, &pattern.text) < (other.0, &other.1.text);
                    if first.as_ref().is_none_or(is_before) {
                        first = Some(found);
                    }
                    // The answer ends, here or before.
                    *matched = 0;
                    break;
                }
            }
        }
        let ended = first.map(|(at, pattern)| (at, pattern.text.clone()));
        self.held.push_back(token);
        if let Some((at, stop)) = ended {
            let end = if self.keeps { at + stop.len() } else { at };
            return StopOutcome { tokens: self.cut(end), stop: Some(stop) };
        }
        let open = self.matched.iter().copied().max().unwrap_or(0);
        StopOutcome { tokens: self.release(self.length - open), stop: None }
    }

    /// Returns the held tokens when the answer ends for another reason.
    pub(crate) fn rest(&mut self) -> Vec<Token> {
        self.length = 0;
        self.held.drain(..).collect()
    }

    /// Returns the held tokens within the first `length` bytes.
    fn release(&mut self, length: usize) -> Vec<Token> {
        let mut released = Vec::new();
        let mut at = 0;
        while let Some(token) = self.held.pop_front_if(|token| at + token.text.len() <= length) {
            at += token.text.len();
            released.push(token);
        }
        self.length -= at;
        released
    }

    /// Returns all held tokens, with their first `length` bytes of text. Those without a text are generated tokens as well, so the
    /// client is told of them.
    fn cut(&mut self, mut length: usize) -> Vec<Token> {
        let mut all = self.rest();
        for token in &mut all {
            token.text.truncate(length);
            length -= token.text.len();
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Token {
        Token { text: text.into(), decoded: String::new(), logprob: 0.0, top: Vec::new() }
    }

    fn answer(stops: &[&str], keeps: bool, pieces: &[&str]) -> (String, Option<String>) {
        let texts: Vec<String> = stops.iter().map(|stop| (*stop).to_owned()).collect();
        let mut stops = Stops::new(Patterns::new(&texts), keeps);
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

    #[test]
    fn the_tokens_of_a_stop_text_are_sent_without_text() {
        let mut stops = Stops::new(Patterns::new(&["END".to_owned()]), false);
        assert_eq!(stops.push(token("E")).tokens, []);
        assert_eq!(stops.push(token("ND two")).tokens, [token(""), token("")]);
    }

    #[test]
    fn a_stop_text_that_begins_like_itself_is_found() {
        assert_eq!(answer(&["aab"], false, &["a", "aa", "b!"]), ("a".into(), Some("aab".into())));
        assert_eq!(answer(&["abab!"], false, &["ab", "ababa", "b!"]), ("abab".into(), Some("abab!".into())));
        assert_eq!(answer(&["日日本"], false, &["日", "日日", "本"]), ("日".into(), Some("日日本".into())));
    }

    /// Looking at all that is held for each token would take hours here.
    #[test]
    fn a_long_stop_text_takes_as_many_steps_as_the_answer_has_bytes() {
        let long = "a".repeat(1 << 18) + "b";
        let mut stops = Stops::new(Patterns::new(std::slice::from_ref(&long)), false);
        for _ in 0..1 << 18 {
            assert_eq!(stops.push(token("a")), StopOutcome::default());
        }
        for _ in 0..1000 {
            assert_eq!(stops.push(token("a")).tokens.len(), 1);
        }
        assert_eq!(stops.push(token("b")).stop, Some(long));
    }

    proptest::proptest! {
        #[test]
        fn an_answer_ends_where_the_first_stop_text_begins(
            texts in proptest::collection::vec("[ab]{1,5}", 1..4), pieces in proptest::collection::vec("[ab]{0,4}", 0..20)
        ) {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let (text, stop) = answer(&texts, false, &pieces);
            // The piece that completes a stop text first decides.
            let mut so_far = String::new();
            let mut expected = None;
            for piece in &pieces {
                so_far.push_str(piece);
                expected = texts.iter().filter_map(|stop| Some((so_far.find(stop)?, (*stop).to_owned()))).min();
                if expected.is_some() {
                    break;
                }
            }
            let (end, expected) = expected.map_or((so_far.len(), None), |(at, stop)| (at, Some(stop)));
            proptest::prop_assert_eq!((text.as_str(), stop), (&so_far[..end], expected));
        }
    }
}
