//! The tokens of a model, prepared for forms.

use std::sync::Arc;

use llguidance::{
    ParserFactory,
    api::ParserLimits,
    toktrie::{ApproximateTokEnv, INVALID_TOKEN, TokEnv, TokRxInfo, TokTrie},
};

/// States of the automaton of an answer. Each takes one or two kB.
const MAX_LEXER_STATES: usize = 8192;
/// Ways in which a grammar may go on in one place; an alternative of objects has four. With 1000, a token of the most ambiguous grammar
/// takes 0.3 s, and with the library's 2000 it takes 1.4 s.
const MAX_PARSER_ITEMS: usize = 1000;
/// Symbols of a grammar.
const MAX_GRAMMAR_SYMBOLS: usize = 100_000;
/// Bytes of a token. `llguidance` panics with longer ones, and with a larger vocabulary.
pub(super) const MAX_TOKEN_BYTES: usize = 512;
const MAX_VOCABULARY_BYTES: usize = 4 << 20;

/// The bytes of every token, prepared for forms.
pub(crate) struct Vocabulary(pub(super) ParserFactory);

// === impl Vocabulary ===

impl Vocabulary {
    /// Takes the bytes of each token (none for special tokens), and the tokens that end an answer.
    pub(crate) fn new(mut tokens: Vec<Vec<u8>>, ends: impl Iterator<Item = u32>) -> Result<Self, String> {
        let ends: Vec<u32> = ends.filter(|end| (*end as usize) < tokens.len()).collect();
        for end in &ends {
            tokens[*end as usize].clear();
        }
        for token in &mut tokens {
            if token.len() > MAX_TOKEN_BYTES {
                token.clear();
            }
        }
        let size = u32::try_from(tokens.len()).map_err(|_| "the model has too many tokens")?;
        if tokens.iter().map(Vec::len).sum::<usize>() > MAX_VOCABULARY_BYTES {
            return Err("the tokens of this model are too long".into());
        }
        let mut trie = TokTrie::from(&TokRxInfo::new(size, INVALID_TOKEN), &tokens);
        if !ends.is_empty() {
            trie = trie.with_eos_tokens(&ends);
        }
        let tokens: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let mut factory = ParserFactory::new_simple(&tokens).map_err(|error| error.to_string())?;
        factory.quiet();
        *factory.limits_mut() = ParserLimits {
            max_items_in_row: MAX_PARSER_ITEMS,
            max_lexer_states: MAX_LEXER_STATES,
            max_grammar_size: MAX_GRAMMAR_SYMBOLS,
            verbose_errors: false,
            ..ParserLimits::default()
        };
        Ok(Self(factory))
    }
}
