//! The text of an answer as it grows token by token.

use super::tokenizer::Tokenizer;

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
    /// The text that a token adds; empty while a character is incomplete, and of special tokens unless they are shown.
    pub(crate) fn push(&mut self, tokenizer: &Tokenizer, token: u32, shows_special: bool) -> String {
        self.tokens.push(token);
        // How a token reads depends on the one before it.
        let before = tokenizer.text(&self.tokens[self.from..self.given], shows_special);
        let text = tokenizer.text(&self.tokens[self.from..], shows_special);
        if text.len() <= before.len() || text.ends_with(INCOMPLETE) {
            return String::new();
        }
        let piece = text.get(before.len()..).unwrap_or_default().to_owned();
        self.from = self.given;
        self.given = self.tokens.len();
        piece
    }
}
