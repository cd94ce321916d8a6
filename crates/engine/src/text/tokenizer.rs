//! A model's tokenizer.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::Value;
use tokenizers::{DecoderWrapper, Tokenizer as Inner};

use super::limits;
use crate::{
    LoadError,
    weights::{Safetensors, files},
};

/// A model's tokenizer, and the tokens that end an answer.
pub(crate) struct Tokenizer {
    inner: Inner,
    ends: BTreeSet<u32>,
    /// Bytes of the longest token, at least.
    pub(crate) longest: usize,
    /// The texts of the first and the last token of a text, for templates.
    pub(crate) begin: String,
    pub(crate) end: String,
}

// === impl Tokenizer ===

impl Tokenizer {
    /// Reads `tokenizer.json` and the settings beside the weights.
    pub(super) fn load(folder: &Path, files: &Safetensors) -> Result<Self, LoadError> {
        let file = folder.join("tokenizer.json");
        if !file.is_file() {
            return Err(LoadError::malformed(folder, "`tokenizer.json` is missing"));
        }
        let inner = read(&files::tokenizer(&file)?).map_err(|reason| LoadError::malformed(file, reason))?;
        let optional = |name: &str| {
            let path = folder.join(name);
            if path.is_file() { files::json(&path) } else { Ok(Value::Null) }
        };
        let (settings, generation) =
            (optional("tokenizer_config.json")?, optional("generation_config.json")?);
        let mut ends = numbers(&generation["eos_token_id"]);
        ends.extend(numbers(&files.config()["eos_token_id"]));
        Ok(Self::new(inner, ends, special(&settings["bos_token"]), special(&settings["eos_token"])))
    }

    /// A token for each byte that can be printed, and the special token `<s>`.
    #[cfg(test)]
    pub(crate) fn of_bytes() -> Self {
        let letters: serde_json::Map<String, Value> =
            (0_u32..).zip('!'..='~').map(|(token, letter)| (letter.to_string(), token.into())).collect();
        let special = serde_json::json!({
            "id": letters.len(), "content": "<s>", "special": true, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false,
        });
        let level = serde_json::json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
        let file = serde_json::json!({
            "version": "1.0", "added_tokens": [special], "normalizer": null, "pre_tokenizer": level, "post_processor": null,
            "decoder": level, "model": {"type": "BPE", "vocab": letters, "merges": []},
        });
        let inner = read(file.to_string().as_bytes()).expect("it is well formed");
        Self::new(inner, BTreeSet::new(), String::new(), String::new())
    }

    pub(super) fn new(inner: Inner, ends: BTreeSet<u32>, begin: String, end: String) -> Self {
        let longest = inner.get_vocab(true).keys().map(String::len).max().unwrap_or_default();
        let mut tokenizer = Self { inner, ends, longest, begin, end };
        // Chat models end a turn with a token that is not always said to end an answer.
        for text in [tokenizer.end.as_str(), "<|im_end|>", "<|eot_id|>", "<|endoftext|>"] {
            if let Some(token) = tokenizer.inner.token_to_id(text) {
                tokenizer.ends.insert(token);
            }
        }
        tokenizer
    }

    /// Returns the tokens of a text. The text may contain special tokens. The model's begin token is added, unless a chat
    /// template has already written it.
    pub(crate) fn tokens(&self, text: &str) -> Vec<u32> {
        let begins = self.begin.is_empty() || !text.starts_with(&self.begin);
        self.inner.encode_fast(text, begins).map(|encoding| encoding.get_ids().to_vec()).unwrap_or_default()
    }

    /// The tokens of a text within others: nothing is added at its beginning.
    pub(crate) fn words_of(&self, text: &str) -> Vec<u32> {
        self.inner.encode_fast(text, false).map(|encoding| encoding.get_ids().to_vec()).unwrap_or_default()
    }

    /// The text of tokens, with or without special ones.
    pub(crate) fn text(&self, tokens: &[u32], show_special_tokens: bool) -> String {
        self.inner.decode(tokens, !show_special_tokens).unwrap_or_default()
    }

    /// Returns the bytes of every token. Special tokens have no bytes, because they are never part of a text. Returns `None`
    /// if the tokens do not consist of bytes.
    pub(crate) fn words(&self) -> Option<Vec<Vec<u8>>> {
        if !matches!(self.inner.get_decoder(), Some(DecoderWrapper::ByteLevel(_))) {
            return None;
        }
        let letters = letters();
        let added = self.inner.get_added_tokens_decoder();
        let bytes = |token: u32| match added.get(&token) {
            Some(added) if added.special => Vec::new(),
            Some(added) => added.content.clone().into_bytes(),
            None => {
                let word = self.inner.id_to_token(token).unwrap_or_default();
                word.chars()
                    .map(|letter| letters.get(&letter).copied())
                    .collect::<Option<_>>()
                    .unwrap_or_default()
            }
        };
        let count = u32::try_from(self.inner.get_vocab_size(true)).ok()?;
        Some((0..count).map(bytes).collect())
    }

    /// Whether a token is no part of a text that does not show special tokens.
    pub(crate) fn is_special(&self, token: u32) -> bool {
        let added = self.inner.get_added_vocabulary().get_added_tokens_decoder().get(&token);
        added.is_some_and(|added| added.special)
    }

    /// Whether a token ends an answer.
    pub(crate) fn ends(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }

    /// The tokens that end an answer.
    pub(crate) fn end_tokens(&self) -> impl Iterator<Item = u32> {
        self.ends.iter().copied()
    }
}

/// Reads a `tokenizer.json`. Its truncation and padding are dropped: the model's context limits the length of texts, and a
/// text that is too long is refused, not cut.
fn read(file: &[u8]) -> Result<Inner, String> {
    limits::check(file)?;
    let mut inner = built(|| Inner::from_bytes(file).map_err(|error| error.to_string()))?;
    inner.with_truncation(None).map_err(|error| error.to_string())?;
    inner.with_padding(None);
    // The post-processor may name special tokens that the vocabulary lacks. The library then panics at the first text, so one
    // is encoded here.
    built(|| Ok(inner.encode_fast("a", true).is_ok()))?;
    Ok(inner)
}

/// Builds a tokenizer. The library panics where parts of a file contradict each other, as a merge
/// that is longer than each token.
pub(super) fn built<T>(build: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(build));
    result.unwrap_or_else(|_| Err("its parts contradict each other".to_owned()))
}

/// Reads a `tokenizer.json` and uses it, for the fuzz target.
pub(crate) fn probe(file: &[u8]) {
    let Ok(inner) = read(file) else { return };
    let tokenizer = Tokenizer::new(inner, BTreeSet::new(), String::new(), String::new());
    let tokens = tokenizer.tokens("It's 12 o'clock,\n\n  in  Zürich: 日本 🙂<s></s>");
    tokenizer.text(&tokens, true);
    tokenizer.words();
}

/// The letters that stand for bytes in vocabularies: bytes that can be printed are themselves, the others come after them.
fn letters() -> BTreeMap<char, u8> {
    let is_printed = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let mut others = (0x100..).filter_map(char::from_u32);
    (0..=u8::MAX)
        .filter_map(|byte| {
            let letter = if is_printed(byte) { Some(char::from(byte)) } else { others.next() };
            Some((letter?, byte))
        })
        .collect()
}

fn numbers(value: &Value) -> BTreeSet<u32> {
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    match value {
        Value::Array(values) => values.iter().filter_map(number).collect(),
        value => number(value).into_iter().collect(),
    }
}

/// Returns the text of a special token, which is a string or an object with the text.
fn special(value: &Value) -> String {
    value.as_str().or(value["content"].as_str()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncation_and_padding_of_the_file_are_ignored() {
        let file = include_str!("../../../../fuzz/corpus/engine_tokenizer/bpe");
        // So many tokens would be more than all memory.
        let file = file.replace("\"Fixed\":8", "\"Fixed\":1099511627776");
        assert!(file.contains("1099511627776") && file.contains("\"max_length\":4"), "{file}");
        let inner = read(file.as_bytes()).unwrap();
        let tokenizer = Tokenizer::new(inner, BTreeSet::new(), String::new(), String::new());
        // A token before the text, which gets an `a` and has `b` for spaces.
        assert_eq!(tokenizer.tokens("b b bb"), [4, 2, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn files_that_are_broken_are_refused_in_a_sentence() {
        let file = include_str!("../../../../fuzz/corpus/engine_tokenizer/bpe");
        for (from, to) in [
            ("[[\"a\",\"b\"]]", "[[\"a\",\"c\"]]"),
            ("[[\"a\",\"b\"]]", "[[\"b\",\"a\"]]"),
            ("\"ab\":2,", ""),
            ("\"continuing_subword_prefix\":null", "\"continuing_subword_prefix\":\"abc\""),
            ("\"type\":\"BPE\"", "\"type\":\"Unigram\""),
            ("\"dropout\":null", "\"dropout\":0.5"),
            ("\"vocab\":{\"a\":0", "\"vocab\":{\"a\":-1"),
            ("\"version\"", ""),
        ] {
            assert!(file.contains(from), "{from}");
            let reason = read(file.replace(from, to).as_bytes()).map(drop).unwrap_err();
            assert!(!reason.is_empty() && reason.len() < 500, "{to}: {reason}");
        }
        let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(
            read(file.replace("\"normalizer\":{", &format!("\"normalizer\":{nested},\"x\":{{")).as_bytes())
                .is_err()
        );
    }
}
