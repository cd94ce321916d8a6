//! Builds the tokenizer of a GGUF file, which contains a vocabulary and the name of the splitting rules.

use std::{collections::BTreeSet, path::Path};

use tokenizers::{
    AddedToken, PostProcessorWrapper, SplitDelimiterBehavior, Tokenizer as Inner,
    models::bpe::BPE,
    pre_tokenizers::{
        PreTokenizerWrapper,
        byte_level::ByteLevel,
        digits::Digits,
        sequence::Sequence,
        split::{Split, SplitPattern},
    },
    processors::template::TemplateProcessing,
};

use super::tokenizer::{Tokenizer, built};
use crate::{
    LoadError,
    weights::{self, Gguf, Value},
};

/// The types of special tokens in texts. Control tokens are not shown in answers. User-defined tokens are shown.
const CONTROL: usize = 3;
const USER_DEFINED: usize = 4;

/// The patterns that split texts for Qwen2 and for Llama 3. They differ in the number of digits that stay together.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Tokens of these types. Known models have some hundreds, of some dozens of bytes.
const MAX_LITERAL_TOKENS: usize = 1 << 16;
const MAX_LITERAL_BYTES: usize = 1024;

/// Makes the tokenizer of a file.
pub(super) fn tokenizer(file: &Gguf) -> Result<Tokenizer, LoadError> {
    make(file.path(), &|key| file.get(key))
}

/// Makes the tokenizer of a file with this header and uses it, for the fuzz target.
pub(crate) fn probe(header: &[u8]) {
    let Some(values) = weights::gguf_metadata(header) else { return };
    let Ok(tokenizer) = make(Path::new("fuzz.gguf"), &|key| values.get(key)) else { return };
    let tokens = tokenizer.tokens("It's 12 o'clock,\n\n  in  Zürich: 日本 🙂<s></s>");
    tokenizer.text(&tokens, true);
    tokenizer.words();
}

fn make<'a>(path: &Path, get: &dyn Fn(&str) -> Option<&'a Value>) -> Result<Tokenizer, LoadError> {
    let malformed = |reason: String| LoadError::malformed(path, reason);
    let unsupported = |what: String| LoadError::unsupported(path, what);
    let text = |key: &str| get(key).and_then(Value::text);
    let texts = |key: &str| {
        let list = get(key).and_then(Value::list);
        let list = list.and_then(|list| list.iter().map(|value| value.text()).collect::<Option<Vec<_>>>());
        list.ok_or_else(|| malformed(format!("`{key}` is missing or is not a list of strings")))
    };
    let kind = text("tokenizer.ggml.model").unwrap_or_default();
    if kind != "gpt2" {
        return Err(unsupported(format!(
            "the tokenizer `{kind}` of GGUF files (`gpt2` is; safetensors with a `tokenizer.json` have no such limit)"
        )));
    }
    let tokens = texts("tokenizer.ggml.tokens")?;
    let merges = texts("tokenizer.ggml.merges")?
        .into_iter()
        .map(|merge| merge.split_once(' ').map(|(left, right)| (left.to_owned(), right.to_owned())))
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| malformed("a merge of `tokenizer.ggml.merges` is not a pair".into()))?;
    let number = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
    let vocabulary: ahash::AHashMap<String, u32> =
        tokens.iter().enumerate().map(|(index, token)| ((*token).to_owned(), number(index))).collect();
    let rules = text("tokenizer.ggml.pre").unwrap_or("default");
    let splitter = splitter(rules).ok_or_else(|| unsupported(format!("the tokenizer rules `{rules}`")))?;
    let builder = BPE::builder().vocab_and_merges(vocabulary, merges).ignore_merges(rules == "llama-bpe");
    let mut inner =
        Inner::new(built(|| builder.build().map_err(|error| error.to_string())).map_err(malformed)?);
    inner.with_pre_tokenizer(Some(splitter));
    inner.with_decoder(Some(ByteLevel::default()));
    let types = get("tokenizer.ggml.token_type").and_then(Value::list).unwrap_or_default();
    add_literal_tokens(&mut inner, types, &tokens).map_err(malformed)?;
    let id = |key: &str| get(key).and_then(Value::size);
    let named = |key: &str| {
        id(key).and_then(|id| tokens.get(id)).map(|token| (*token).to_owned()).unwrap_or_default()
    };
    let begin = named("tokenizer.ggml.bos_token_id");
    let end = named("tokenizer.ggml.eos_token_id");
    // The tokens that are added before and after a text.
    let added = |flag: &str, key: &str, text: &String| {
        let is_added = matches!(get(flag), Some(Value::Flag(true))) && !text.is_empty();
        id(key).filter(|_| is_added).map(|token| (text.clone(), number(token)))
    };
    let first = added("tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id", &begin);
    let last = added("tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id", &end);
    if first.is_some() || last.is_some() {
        inner.with_post_processor(Some(frame(first, last).map_err(malformed)?));
    }
    let ends: BTreeSet<u32> = ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"]
        .into_iter()
        .filter_map(|key| id(key).map(number))
        .collect();
    Ok(Tokenizer::new(inner, ends, begin, end))
}

/// Adds the tokens that are found in texts as they are: control tokens, which answers do not show, and those of users.
fn add_literal_tokens(inner: &mut Inner, types: &[Value], tokens: &[&str]) -> Result<(), String> {
    for (kind, is_special) in [(CONTROL, true), (USER_DEFINED, false)] {
        let of_kind =
            types.iter().zip(tokens).filter(|(of, token)| of.size() == Some(kind) && !token.is_empty());
        let (count, longest) = of_kind
            .clone()
            .fold((0, 0), |(count, longest), (_, token)| (count + 1, token.len().max(longest)));
        if count > MAX_LITERAL_TOKENS || longest > MAX_LITERAL_BYTES {
            return Err(format!(
                "{count} tokens of the type {kind}, of up to {longest} bytes: expected {MAX_LITERAL_TOKENS} of \
                 {MAX_LITERAL_BYTES} bytes at most"
            ));
        }
        let added: Vec<AddedToken> =
            of_kind.map(|(_, token)| AddedToken::from(*token, is_special).normalized(false)).collect();
        let result = if is_special { inner.add_special_tokens(added) } else { inner.add_tokens(added) };
        result.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Puts a token before and a token after each text.
fn frame(first: Option<(String, u32)>, last: Option<(String, u32)>) -> Result<PostProcessorWrapper, String> {
    let text = |side: &Option<(String, u32)>| side.as_ref().map(|(text, _)| text.clone());
    let pieces: Vec<String> = text(&first).into_iter().chain(["$A".into()]).chain(text(&last)).collect();
    let special: BTreeSet<(String, u32)> = first.into_iter().chain(last).collect();
    let processor = TemplateProcessing::builder()
        .try_single(pieces.join(" "))?
        .special_tokens(special.into_iter().collect::<Vec<_>>())
        .build()
        .map_err(|error| error.to_string())?;
    Ok(PostProcessorWrapper::Template(processor))
}

/// Returns the rule that splits a text before byte-pair merging.
fn splitter(rules: &str) -> Option<PreTokenizerWrapper> {
    let bytes = |splits: bool| PreTokenizerWrapper::ByteLevel(ByteLevel::new(false, true, splits));
    let split = |pattern: &str| {
        let pattern = SplitPattern::Regex(pattern.to_owned());
        let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false).ok()?;
        Some(PreTokenizerWrapper::Sequence(Sequence::new(vec![
            PreTokenizerWrapper::Split(split),
            bytes(false),
        ])))
    };
    match rules {
        "default" | "gpt-2" => Some(bytes(true)),
        "smollm" => {
            let digits = PreTokenizerWrapper::Digits(Digits::new(true));
            Some(PreTokenizerWrapper::Sequence(Sequence::new(vec![digits, bytes(true)])))
        }
        "qwen2" => split(QWEN2),
        "llama-bpe" | "llama3" => split(LLAMA3),
        _ => None,
    }
}
