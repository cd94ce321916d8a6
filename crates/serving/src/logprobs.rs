//! Token probabilities in the forms of the three APIs.

use serde_json::{Map, Value, json};

use crate::Token;

/// Returns a list of tokens with their bytes and alternatives, as in chat and responses.
pub(crate) fn list(tokens: &[Token]) -> Vec<Value> {
    entries(tokens, |text, logprob| json!({"token": text, "logprob": logprob, "bytes": text.as_bytes()}))
}

/// Returns the same list without the bytes, as in the events of responses.
pub(crate) fn without_bytes(tokens: &[Token]) -> Vec<Value> {
    entries(tokens, |text, logprob| json!({"token": text, "logprob": logprob}))
}

fn entries(tokens: &[Token], entry: impl Fn(&str, f64) -> Value) -> Vec<Value> {
    let with_top = |token: &Token| {
        let mut value = entry(&token.decoded, token.logprob);
        // As in vLLM, the chosen token is the first, also if it is not among the most likely ones, and the list keeps its length.
        let chosen = (token.decoded.clone(), token.logprob);
        let others = token.top.iter().filter(|other| **other != chosen);
        let top = std::iter::once(&chosen).chain(others).take(token.top.len());
        value["top_logprobs"] = top.map(|(text, logprob)| entry(text, *logprob)).collect();
        value
    };
    tokens.iter().map(with_top).collect()
}

/// Returns the form of chat.
pub(crate) fn chat(tokens: &[Token]) -> Value {
    json!({"content": list(tokens)})
}

/// Returns the form of completions, which is columns. `offset` is the position of the first token's text in characters.
pub(crate) fn columns(tokens: &[Token], mut offset: usize) -> Value {
    let (mut texts, mut logprobs, mut tops, mut offsets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for token in tokens {
        texts.push(token.decoded.as_str());
        logprobs.push(token.logprob);
        // The chosen token is listed even if it is not among the most likely ones.
        let top: Map<String, Value> = std::iter::once((&token.decoded, token.logprob))
            .chain(token.top.iter().map(|(text, logprob)| (text, *logprob)))
            .map(|(text, logprob)| (text.clone(), Value::from(logprob)))
            .collect();
        tops.push(Value::Object(top));
        offsets.push(offset);
        offset += token.decoded.chars().count();
    }
    json!({"tokens": texts, "token_logprobs": logprobs, "top_logprobs": tops, "text_offset": offsets})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_token_is_the_first_of_the_likely_ones() {
        let top = vec![("a".to_owned(), -0.5), ("b".to_owned(), -1.5)];
        for (chosen, logprob, expected) in
            [("a", -0.5, ["a", "b"]), ("b", -1.5, ["b", "a"]), ("c", -2.5, ["c", "a"])]
        {
            let token = Token { text: chosen.into(), decoded: chosen.into(), logprob, top: top.clone() };
            let listed = without_bytes(&[token]);
            let listed: Vec<&Value> =
                listed[0]["top_logprobs"].as_array().unwrap().iter().map(|entry| &entry["token"]).collect();
            assert_eq!(listed, expected);
        }
    }
}
