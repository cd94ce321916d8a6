//! A model's tokenizer.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::Value;
use tokenizers::{DecoderWrapper, Tokenizer as Inner};

use super::vocabulary;
use crate::{
    LoadError,
    weights::{Weights, files},
};

/// A model's tokenizer, and the tokens that end an answer.
pub(crate) struct Tokenizer {
    inner: Inner,
    ends: BTreeSet<u32>,
    /// The texts of the begin-of-text and end-of-text tokens, for templates.
    pub(crate) begin: String,
    pub(crate) end: String,
}

// === impl Tokenizer ===

impl Tokenizer {
    /// Loads the tokenizer of a model, from `tokenizer.json` beside the weights or from the vocabulary of a GGUF file.
    pub(crate) fn load(folder: &Path, weights: &Weights) -> Result<Self, LoadError> {
        let file = folder.join("tokenizer.json");
        match weights {
            Weights::Gguf(gguf) => vocabulary::tokenizer(gguf),
            Weights::Safetensors(_) if !file.is_file() => Err(LoadError::Malformed {
                path: folder.to_owned(),
                reason: "`tokenizer.json` is missing".into(),
            }),
            Weights::Safetensors(files) => {
                let inner = Inner::from_bytes(files::tokenizer(&file)?)
                    .map_err(|error| LoadError::Malformed { path: file, reason: error.to_string() })?;
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
        }
    }

    pub(super) fn new(inner: Inner, ends: BTreeSet<u32>, begin: String, end: String) -> Self {
        let mut tokenizer = Self { inner, ends, begin, end };
        // Chat models end a turn with a token that is not always declared as an end token.
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

    /// Returns the text of tokens, without special tokens.
    pub(crate) fn text(&self, tokens: &[u32]) -> String {
        self.inner.decode(tokens, true).unwrap_or_default()
    }

    /// Returns the bytes of every token. Special tokens have no bytes, because they are never part of a text. Returns `None` if
    /// the tokens do not consist of bytes.
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

    /// Whether a token ends an answer.
    pub(crate) fn ends(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }

    /// The tokens that end an answer.
    pub(crate) fn end_tokens(&self) -> impl Iterator<Item = u32> {
        self.ends.iter().copied()
    }
}

/// The letters that represent bytes in vocabularies. Printable bytes represent themselves, and the others follow after them.
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
