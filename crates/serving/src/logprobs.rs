//! Probabilities of tokens in the forms of the three APIs.

use serde_json::{Map, Value, json};

use crate::Token;

/// As chat and responses have them: a list of tokens with their bytes and alternatives.
pub(crate) fn list(tokens: &[Token]) -> Vec<Value> {
    let entry =
        |text: &str, logprob: f64| json!({"token": text, "logprob": logprob, "bytes": text.as_bytes()});
    tokens
        .iter()
        .map(|token| {
            let mut value = entry(&token.text, token.logprob);
            value["top_logprobs"] = token.top.iter().map(|(text, logprob)| entry(text, *logprob)).collect();
            value
        })
        .collect()
}

/// As chat has them.
pub(crate) fn chat(tokens: &[Token]) -> Value {
    json!({"content": list(tokens)})
}

/// As completions have them: columns. `offset` is where the first token's text begins, in characters.
pub(crate) fn columns(tokens: &[Token], mut offset: usize) -> Value {
    let (mut texts, mut logprobs, mut tops, mut offsets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for token in tokens {
        texts.push(token.text.as_str());
        logprobs.push(token.logprob);
        // The chosen token is listed also where it is not among the likeliest.
        let top: Map<String, Value> = std::iter::once((&token.text, token.logprob))
            .chain(token.top.iter().map(|(text, logprob)| (text, *logprob)))
            .map(|(text, logprob)| (text.clone(), Value::from(logprob)))
            .collect();
        tops.push(Value::Object(top));
        offsets.push(offset);
        offset += token.text.chars().count();
    }
    json!({"tokens": texts, "token_logprobs": logprobs, "top_logprobs": tops, "text_offset": offsets})
}
