//! The text of an answer as it grows token by token.

use super::Tokenizer;

/// Stands for bytes of an incomplete character, which the next token may complete.
const INCOMPLETE: char = '\u{fffd}';

/// The tokens so far, and the part whose text was already returned.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    tokens: Vec<u32>,
    /// Tokens before this index are not decoded again.
    from: usize,
    /// The text of the tokens before this index was already returned.
    given: usize,
}

// === impl Pieces ===

impl Pieces {
    /// Returns the text that a token adds. Returns an empty text while a character is incomplete.
    pub(crate) fn push(&mut self, tokenizer: &Tokenizer, token: u32) -> String {
        self.tokens.push(token);
        // The text of a token depends on the token before it.
        let before = tokenizer.text(&self.tokens[self.from..self.given]);
        let text = tokenizer.text(&self.tokens[self.from..]);
        if text.len() <= before.len() || text.ends_with(INCOMPLETE) {
            return String::new();
        }
        let piece = text.get(before.len()..).unwrap_or_default().to_owned();
        self.from = self.given;
        self.given = self.tokens.len();
        piece
    }
}
