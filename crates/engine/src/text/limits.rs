//! Limits of a `tokenizer.json`, checked before it is used: its steps may make a text longer, and the time of its regular
//! expressions may grow faster than a text.

use fancy_regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::Value;

/// Steps of a tokenizer within steps. Reading more of them would take a time that doubles with each level.
const MAX_DEPTH: usize = 6;
/// Steps of one kind.
const MAX_STEPS: usize = 64;
/// How many times longer a text may become.
const MAX_GROWTH: usize = 256;
/// Bytes of a regular expression, and of a text that is added.
const MAX_PATTERN_BYTES: usize = 4096;
const MAX_ADDED_BYTES: usize = 256;
/// Tokens that are added to each text.
const MAX_ADDED_TOKENS: usize = 64;

/// Bytes of the texts on which regular expressions are tried.
const PROBE: usize = 1000;
/// Steps back that finding the next part of such a text takes: usually, and at most.
const BACKTRACK_SOFT_LIMIT: usize = 100;
const BACKTRACK_LIMIT: usize = 50_000;
/// Parts of such a text that may take more than a few.
const MAX_SLOW_PARTS: usize = 16;

/// The parts of a file that are small. What else there is, the vocabulary above all, is passed over.
#[derive(Deserialize)]
struct Outline {
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    post_processor: Value,
    #[serde(default)]
    decoder: Value,
    model: ModelOutline,
}

#[derive(Deserialize)]
struct ModelOutline {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    dropout: Value,
}

/// Says why a file is not used.
pub(super) fn check(file: &[u8]) -> Result<(), String> {
    let outline: Outline = serde_json::from_slice(file).map_err(|error| error.to_string())?;
    match outline.model.kind.as_deref() {
        None | Some("BPE") => {}
        Some(kind) => return Err(format!("the tokenizer model `{}` is not supported: BPE is", short(kind))),
    }
    if !outline.model.dropout.is_null() {
        return Err(
            "`model.dropout` is not supported, because the same text would get different tokens each time"
                .into(),
        );
    }
    for (name, part, inner) in [
        ("normalizer", &outline.normalizer, "normalizers"),
        ("pre_tokenizer", &outline.pre_tokenizer, "pretokenizers"),
        ("post_processor", &outline.post_processor, "processors"),
        ("decoder", &outline.decoder, "decoders"),
    ] {
        let mut steps = Vec::new();
        flatten(part, inner, MAX_DEPTH, &mut steps).map_err(|reason| format!("`{name}` {reason}"))?;
        let mut growth = 1_usize;
        for step in steps {
            growth = growth.saturating_mul(check_step(step).map_err(|reason| format!("`{name}`: {reason}"))?);
        }
        if growth > MAX_GROWTH {
            return Err(format!("`{name}` makes texts {growth} times longer, expected {MAX_GROWTH} at most"));
        }
    }
    Ok(())
}

/// The steps of a part, without the sequences that hold them.
fn flatten<'a>(part: &'a Value, inner: &str, depth: usize, steps: &mut Vec<&'a Value>) -> Result<(), String> {
    match part[inner].as_array() {
        Some(parts) if depth > 0 => parts.iter().try_for_each(|part| flatten(part, inner, depth - 1, steps)),
        Some(_) => Err(format!("is nested more than {MAX_DEPTH} levels deep")),
        None if part.is_null() => Ok(()),
        None if steps.len() < MAX_STEPS => {
            steps.push(part);
            Ok(())
        }
        None => Err(format!("has more than {MAX_STEPS} steps")),
    }
}

/// How many times longer a step makes a text. The error says why the step is not used.
fn check_step(step: &Value) -> Result<usize, String> {
    let kind = step["type"].as_str().unwrap_or_default();
    if let Some(pattern) = step["pattern"]["Regex"].as_str() {
        judge_pattern(pattern)?;
    }
    let length = |key: &str| step[key].as_str().map_or(0, str::len);
    match kind {
        "Replace" => {
            let replaced = step["pattern"]["String"].as_str().map_or(1, str::len).max(1);
            Ok(length("content").div_ceil(replaced).max(1))
        }
        "Prepend" if length("prepend") > MAX_ADDED_BYTES => Err(format!(
            "it adds {} bytes to each text, expected {MAX_ADDED_BYTES} at most",
            length("prepend")
        )),
        "TemplateProcessing" => {
            let pieces = ["single", "pair"].map(|side| step[side].as_array().map_or(0, Vec::len));
            let tokens = step["special_tokens"].as_object().into_iter().flatten();
            let longest = tokens.filter_map(|(_, token)| Some(token["ids"].as_array()?.len())).max();
            let added = pieces[0].max(pieces[1]).saturating_mul(longest.unwrap_or(1).max(1));
            if added > MAX_ADDED_TOKENS {
                return Err(format!(
                    "it adds up to {added} tokens to each text, expected {MAX_ADDED_TOKENS} at most"
                ));
            }
            Ok(1)
        }
        // Its table may make any text of a character.
        "Precompiled" => Err("the step `Precompiled` is not supported".into()),
        _ => Ok(1),
    }
}

/// Refuses a regular expression that takes far more steps than a text has bytes.
fn judge_pattern(pattern: &str) -> Result<(), String> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(format!(
            "a regular expression of {} bytes, expected {MAX_PATTERN_BYTES} at most",
            pattern.len()
        ));
    }
    let built = |limit: usize| RegexBuilder::new(pattern).backtrack_limit(limit).build();
    let refuse = |what: &str| Err(format!("the regular expression `{}` {what}", short(pattern)));
    let (Ok(few), Ok(many)) = (built(BACKTRACK_SOFT_LIMIT), built(BACKTRACK_LIMIT)) else {
        return refuse("cannot be read, or is too large");
    };
    let pieces = [
        "a", "A", "0", " ", "\n", "\t", "'", ".", "é", "中", "aB", "a ", " a", "a1", "1 ", "\r\n", "a.",
        "'s ",
    ];
    let slow = pieces.iter().any(|piece| {
        let run = piece.repeat(PROBE / piece.len());
        ["", "!", "b", "\u{0}"].iter().any(|end| is_slow(&few, &many, &(run.clone() + end)))
    });
    if slow { refuse("needs backtracking, which would take too long") } else { Ok(()) }
}

/// Whether cutting a text into its parts takes many steps.
fn is_slow(few: &Regex, many: &Regex, text: &str) -> bool {
    let (mut at, mut slow) = (0, 0);
    while at <= text.len() {
        let found = if let Ok(found) = few.find_from_pos(text, at) {
            found
        } else {
            slow += 1;
            match many.find_from_pos(text, at) {
                Ok(found) if slow <= MAX_SLOW_PARTS => found,
                _ => return true,
            }
        };
        let Some(found) = found else { return false };
        at = found.end();
        if found.start() == found.end() {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    false
}

fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(part: &str, value: &Value) -> Result<(), String> {
        check(
            json!({"model": {"type": "BPE", "vocab": {}, "merges": []}, part: value}).to_string().as_bytes(),
        )
    }

    fn split(pattern: &str) -> Value {
        json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false})
    }

    #[test]
    fn the_rules_of_known_models_are_used() {
        for pattern in [
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ] {
            assert_eq!(checked("pre_tokenizer", &split(pattern)), Ok(()), "{pattern}");
        }
        let spaces = json!({"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]});
        assert_eq!(checked("normalizer", &spaces), Ok(()));
    }

    #[test]
    fn tokenizers_that_multiply_a_text_are_refused() {
        for pattern in [r"(?:a+)+(?!b)$", r"(a|aa)+(?<!x)\b!", r"(\w+)\s?\1+!"] {
            let refused = checked("pre_tokenizer", &split(pattern));
            assert!(
                refused.as_ref().is_err_and(|reason| reason.contains("needs backtracking")),
                "{pattern}: {refused:?}"
            );
        }
        let doubles = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
        let error =
            checked("normalizer", &json!({"type": "Sequence", "normalizers": vec![doubles.clone(); 30]}));
        assert_eq!(
            error.unwrap_err(),
            "`normalizer` makes texts 1073741824 times longer, expected 256 at most"
        );
        let error = checked("decoder", &json!({"type": "Sequence", "decoders": vec![doubles; 100]}));
        assert_eq!(error.unwrap_err(), "`decoder` has more than 64 steps");
        let mut nested = json!({"type": "NFC"});
        for _ in 0..30 {
            nested = json!({"type": "Sequence", "normalizers": [nested]});
        }
        assert_eq!(
            checked("normalizer", &nested).unwrap_err(),
            "`normalizer` is nested more than 6 levels deep"
        );
        let pieces: Vec<Value> =
            (0..65).map(|_| json!({"SpecialToken": {"id": "x", "type_id": 0}})).collect();
        let template =
            json!({"type": "TemplateProcessing", "single": pieces, "pair": [], "special_tokens": {}});
        let error = checked("post_processor", &template).unwrap_err();
        assert!(error.contains("65 tokens to each text"), "{error}");
        let error = check(br#"{"model": {"type": "Unigram", "vocab": []}}"#).unwrap_err();
        assert_eq!(error, "the tokenizer model `Unigram` is not supported: BPE is");
    }
}
