//! A chat request that is decoded in chunks. Each chunk requests a few more tokens, with the answer so far as the last
//! message.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};

use crate::{api, connectors::TRANSFER, object::Object};

/// Fields of requests whose answers cannot be divided: tool calls, structured outputs, log probabilities and others.
const WHOLE: [&str; 10] = [
    "tools",
    "logprobs",
    "top_logprobs",
    "response_format",
    "structured_outputs",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "continue_final_message",
];

/// A request, and the engine's answers to its chunks.
#[derive(Debug)]
pub(crate) struct Chunks {
    body: Bytes,
    size: u64,
    /// The client's limit of tokens.
    limit: Option<u64>,
    minimum: u64,
    said: Vec<String>,
    used: u64,
    prompt_tokens: u64,
    cached_tokens: Option<u64>,
    last: Map<String, Value>,
    is_over: bool,
}

/// One message of a conversation.
#[derive(Serialize)]
#[serde(untagged)]
enum Message<'a> {
    Given(&'a RawValue),
    Said { role: &'static str, content: &'a str },
}

// === impl Chunks ===

impl Chunks {
    /// Divides a request into chunks of `size` tokens. Returns `None` if the answer fits into one chunk or cannot be divided.
    pub(crate) fn of(body: &Bytes, size: u64, cached_tokens: Option<u64>) -> Option<Self> {
        let request = Object::parse(body).ok()?;
        let count = |name| request.get(name).and_then(|value| value.get().parse::<u64>().ok());
        // In the order in which vLLM reads them.
        let limit = ["max_completion_tokens", "max_tokens"].into_iter().filter_map(count).find(|n| *n > 0);
        let is_set =
            |name: &&str| request.get(name).is_some_and(|value| !matches!(value.get(), "null" | "false"));
        let fits = limit.is_some_and(|limit| limit <= size);
        if fits || WHOLE.iter().any(is_set) || count("n").is_some_and(|n| n != 1) {
            return None;
        }
        serde_json::from_str::<Vec<&RawValue>>(request.get("messages")?.get()).ok()?;
        let minimum = count("min_tokens").unwrap_or_default();
        Some(Self {
            body: body.clone(),
            size,
            limit,
            minimum,
            said: Vec::new(),
            used: 0,
            prompt_tokens: 0,
            cached_tokens,
            last: Map::new(),
            is_over: false,
        })
    }

    /// Whether the client asks for a stream.
    pub(crate) fn is_stream(&self) -> bool {
        let request = Object::parse(&self.body).unwrap_or_default();
        request.get("stream").is_some_and(|value| value.get() == "true")
    }

    /// Returns the body of the next chunk's request. Returns `None` if the answer is complete.
    pub(crate) fn next(&self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        let budget = match self.limit {
            Some(limit) if self.used >= limit => return None,
            Some(limit) => self.size.min(limit - self.used),
            None => self.size,
        };
        let request = Object::parse(&self.body).ok()?;
        let mut body = request.clone();
        body.set_value("max_tokens", &budget);
        body.set_value("max_completion_tokens", &budget);
        if self.minimum > 0 {
            body.set_value("min_tokens", &self.minimum.saturating_sub(self.used).min(budget));
        }
        api::no_stream(&mut body);
        if !self.said.is_empty() {
            let given: Vec<&RawValue> = serde_json::from_str(request.get("messages")?.get()).ok()?;
            let given = given.into_iter().map(Message::Given);
            let said = self.said.iter().map(|content| Message::Said { role: "assistant", content });
            body.set_value("messages", &given.chain(said).collect::<Vec<_>>());
            // The cache was transferred for the first chunk.
            body.remove(TRANSFER);
            // vLLM refuses a continued message together with a new turn.
            body.set_value("continue_final_message", &true);
            body.set_value("add_generation_prompt", &false);
        }
        Some(body.to_vec().into())
    }

    /// Takes the engine's answer to the last chunk.
    pub(crate) fn take(&mut self, answer: &[u8]) -> Result<(), serde_json::Error> {
        let answer: Map<String, Value> = serde_json::from_slice(answer)?;
        let usage = |name: &str| answer.get("usage").and_then(|usage| usage.get(name)?.as_u64());
        let tokens = usage("completion_tokens").unwrap_or_default();
        // The prompt of a later chunk has the answer so far.
        if self.said.is_empty() {
            self.prompt_tokens = usage("prompt_tokens").unwrap_or_default();
        }
        let choice = answer.get("choices").and_then(|choices| choices.get(0));
        let text = choice.map(said).unwrap_or_default().to_owned();
        let reason = choice.and_then(|choice| choice.get("finish_reason")?.as_str());
        // An answer without text ends the request, because otherwise the same chunk would be requested forever.
        self.is_over = reason.is_some_and(|reason| reason != "length") || text.is_empty();
        self.used = self.used.saturating_add(tokens);
        self.said.push(text);
        self.last = answer;
        Ok(())
    }

    /// Returns the last chunk as an event of a stream.
    pub(crate) fn event(&self) -> Value {
        let mut event = self.last.clone();
        event.remove("usage");
        if let Some(choices) = event.get_mut("choices").and_then(Value::as_array_mut) {
            for choice in choices {
                *choice = json!({
                    "index": choice.get("index"),
                    "delta": { "role": "assistant", "content": said(choice) },
                    "finish_reason": choice.get("finish_reason"),
                });
            }
        }
        Value::Object(event)
    }

    /// Returns the last event of a stream, with the usage of all chunks.
    pub(crate) fn usage_event(&self) -> Value {
        json!({ "choices": [], "usage": self.usage() })
    }

    /// Returns all chunks as one answer.
    pub(crate) fn answer(mut self) -> Value {
        let usage = self.usage();
        self.last.insert("usage".into(), usage);
        if let Some(choices) = self.last.get_mut("choices").and_then(Value::as_array_mut) {
            choices.truncate(1);
            if let Some(message) = choices.first_mut().and_then(|choice| choice.get_mut("message")) {
                message["content"] = json!(self.said.concat());
            }
        }
        Value::Object(self.last)
    }

    fn usage(&self) -> Value {
        let mut usage = json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.used,
            "total_tokens": self.prompt_tokens.saturating_add(self.used),
        });
        if let Some(cached_tokens) = self.cached_tokens {
            usage["prompt_tokens_details"] = json!({ "cached_tokens": cached_tokens });
        }
        usage
    }
}

fn said(choice: &Value) -> &str {
    choice.get("message").and_then(|message| message.get("content")?.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(request: &Value) -> Option<Chunks> {
        Chunks::of(&Bytes::from(request.to_string()), 2, None)
    }

    fn asked(chunks: &Chunks) -> Value {
        serde_json::from_slice(&chunks.next().unwrap()).unwrap()
    }

    fn answer(text: &str, tokens: u64, reason: &str) -> Vec<u8> {
        json!({
            "choices": [{"index": 0, "message": {"content": text}, "finish_reason": reason}],
            "usage": {"prompt_tokens": 5, "completion_tokens": tokens},
        })
        .to_string()
        .into_bytes()
    }

    #[test]
    fn a_minimum_stays_below_what_is_asked_for() {
        let mut chunks = chunks(&json!({"messages": [], "max_tokens": 5, "min_tokens": 3})).unwrap();
        let mut minima = Vec::new();
        for tokens in [2, 2, 1] {
            minima.push(asked(&chunks)["min_tokens"].clone());
            chunks.take(&answer("a", tokens, "length")).unwrap();
        }
        assert_eq!(minima, [json!(2), json!(1), json!(0)]);
        assert!(chunks.next().is_none(), "five tokens are there");
    }

    #[test]
    fn an_engine_that_says_nothing_more_is_not_asked_again() {
        for (text, reason) in [("", "length"), ("a", "stop")] {
            let mut chunks = chunks(&json!({"messages": []})).unwrap();
            chunks.take(&answer(text, 2, reason)).unwrap();
            assert!(chunks.next().is_none(), "{text} {reason}");
        }
    }

    #[test]
    fn what_cannot_be_cut_is_decoded_whole() {
        for more in [
            json!({"n": 2}),
            json!({"tools": [{}]}),
            json!({"logprobs": true}),
            json!({"response_format": {"type": "json_object"}}),
            json!({"guided_grammar": "root ::= \"a\""}),
            json!({"max_tokens": 2}),
            json!({"messages": "x"}),
        ] {
            let mut request = json!({"messages": []});
            request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            assert!(chunks(&request).is_none(), "{request}");
        }
        assert!(chunks(&json!({"messages": [], "n": 1, "logprobs": false, "tools": null})).is_some());
    }
}
