//! The text of an answer as it grows token by token.

use super::tokenizer::Tokenizer;

/// Stands for bytes of an incomplete character, which the next token may complete.
const INCOMPLETE: char = '\u{fffd}';

/// The tokens so far, and the part whose text was already returned.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    tokens: Vec<u32>,
    /// Tokens before this index are not decoded again.
    prefix_offset: usize,
    /// The text of the tokens before this index was already returned.
    read_offset: usize,
}

/// Tokens before another that may belong to the same character.
const CHARACTER_TOKENS: usize = 4;

// === impl Pieces ===

impl Pieces {
    /// The text of a token itself if it comes next. As in vLLM, one that ends within a character has none, and the one that completes
    /// the character has all of it.
    pub(crate) fn decoded(&self, tokenizer: &Tokenizer, token: u32) -> String {
        let is_incomplete = |token: u32| tokenizer.text(&[token], true).ends_with(INCOMPLETE);
        if !is_incomplete(token) {
            return tokenizer.text(&[token], true);
        }
        let before = &self.tokens[self.tokens.len().saturating_sub(CHARACTER_TOKENS)..];
        for from in (0..before.len()).rev() {
            let context = &before[from..];
            let text = tokenizer.text(&[context, &[token]].concat(), true);
            if !text.ends_with(INCOMPLETE) {
                let open = context.iter().rev().take_while(|token| is_incomplete(**token)).count();
                let complete = tokenizer.text(&context[..context.len() - open], true);
                return text.get(complete.len()..).unwrap_or_default().to_owned();
            }
        }
        String::new()
    }

    /// The text that a token adds; empty while a character is incomplete, and of special tokens unless they are shown.
    pub(crate) fn push(&mut self, tokenizer: &Tokenizer, token: u32, show_special_tokens: bool) -> String {
        // As in vLLM, a token that is not shown is no context of the next ones. An answer of such tokens would be decoded from
        // its first one for each token.
        if !show_special_tokens && tokenizer.is_special(token) {
            return String::new();
        }
        self.tokens.push(token);
        // How a token reads depends on the one before it.
        let before = tokenizer.text(&self.tokens[self.prefix_offset..self.read_offset], show_special_tokens);
        let text = tokenizer.text(&self.tokens[self.prefix_offset..], show_special_tokens);
        if text.len() <= before.len() || text.ends_with(INCOMPLETE) {
            return String::new();
        }
        let piece = text.get(before.len()..).unwrap_or_default().to_owned();
        self.prefix_offset = self.read_offset;
        self.read_offset = self.tokens.len();
        piece
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_tokens_are_not_decoded_again() {
        let tokenizer = Tokenizer::of_bytes();
        let special = tokenizer.tokens("<s>")[0];
        let letter = tokenizer.tokens("a")[0];
        for (show_special_tokens, text, context) in [(false, "aa", 2), (true, "a<s><s>a", 4)] {
            let mut pieces = Pieces::default();
            let pushed = [letter, special, special, letter]
                .map(|token| pieces.push(&tokenizer, token, show_special_tokens))
                .concat();
            assert_eq!((pushed.as_str(), pieces.tokens.len()), (text, context));
        }
    }
}
