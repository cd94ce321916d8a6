//! Connector `shared-storage`: engines write KV caches to a storage that all engines read, and find the caches there
//! themselves.

use serde_json::value::RawValue;

use super::plan::{Decode, Part, Plan, SplitRequest};
use crate::{api::Api, object::Object};

/// The share of the prompt that must be cached, 0 to 1, for the decoder to continue with a request.
const THRESHOLD: &str = "cache_hit_threshold";

/// The decoder's finish reason if a smaller share is cached.
const CACHE_MISS_REASON: &str = "cache_threshold";

/// The result of the threshold, as far as a response or an event shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Too little is cached, so the decoder stopped.
    Missed,
    /// Enough is cached, so the decoder continues.
    Met,
    /// Not decided yet.
    Unknown,
}

/// Whether the decoder's request is sent before any prefill. This is so if the client sets a threshold.
pub(crate) fn decodes_first(request: &Object<'_>) -> bool {
    request.get(THRESHOLD).is_some()
}

/// Makes the decoder continue whatever is cached.
pub(crate) fn ignore_threshold(request: &mut Object<'_>) {
    request.set_value(THRESHOLD, &0);
}

/// Divides a request.
pub(crate) fn plan(ask: SplitRequest<'_>) -> Plan<'_> {
    let mut prefill = ask.request.clone();
    ask.api.at_most_one_token(&mut prefill);
    if ask.api == Api::Completions {
        prefill.set_value("max_completion_tokens", &1);
    }
    if prefill.get("stream").is_some() {
        prefill.set_value("stream", &false);
    }
    prefill.remove("stream_options");
    ignore_threshold(&mut prefill);
    let decode = Box::new(move |_: &[u8]| {
        let mut body = ask.request.clone();
        ignore_threshold(&mut body);
        Ok(Decode { part: Part::from(&body), cached_tokens: None })
    });
    Plan::InTurn { prefill: Part::from(&prefill), decode }
}

/// Returns the verdict of a response or an event.
pub(crate) fn verdict(answer: &Object<'_>) -> Verdict {
    let Some(choice) = first_choice(answer) else { return Verdict::Met };
    let Ok(choice) = Object::parse(choice.get().as_bytes()) else { return Verdict::Met };
    match choice.get("finish_reason").map(RawValue::get) {
        None | Some("null") => {}
        Some(reason)
            if serde_json::from_str(reason).is_ok_and(|reason: String| reason == CACHE_MISS_REASON) =>
        {
            return Verdict::Missed;
        }
        Some(_) => return Verdict::Met,
    }
    let says_something =
        ["delta", "text", "message"].into_iter().filter_map(|name| choice.get(name)).any(has_content);
    if says_something { Verdict::Met } else { Verdict::Unknown }
}

fn first_choice<'a>(answer: &'a Object<'_>) -> Option<&'a RawValue> {
    let choices: Vec<&RawValue> = serde_json::from_str(answer.get("choices")?.get()).ok()?;
    choices.first().copied()
}

/// Whether a delta, a message or a text has content, apart from its role.
fn has_content(value: &RawValue) -> bool {
    let is_empty = |value: &RawValue| matches!(value.get(), "null" | "\"\"" | "[]");
    match Object::parse(value.get().as_bytes()) {
        Ok(fields) => fields.entries().any(|(name, value)| name != "role" && !is_empty(value)),
        Err(_) => !is_empty(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_says_nothing_yet_decides_nothing() {
        for (answer, expected) in [
            (r#"{"choices":[{"delta":{"role":"assistant"},"finish_reason":null}]}"#, Verdict::Unknown),
            (r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#, Verdict::Unknown),
            (r#"{"choices":[{"text":"","finish_reason":null}]}"#, Verdict::Unknown),
            (r#"{"choices":[{"delta":{},"finish_reason":"cache_threshold"}]}"#, Verdict::Missed),
            (r#"{"choices":[{"text":"a","finish_reason":null}]}"#, Verdict::Met),
            (r#"{"choices":[{"delta":{"tool_calls":[{}]}}]}"#, Verdict::Met),
            (r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#, Verdict::Met),
            (r#"{"choices":[]}"#, Verdict::Met),
            (r#"{"error":{}}"#, Verdict::Met),
        ] {
            let answer = Object::parse(answer.as_bytes()).unwrap();
            assert_eq!(verdict(&answer), expected, "{answer:?}");
        }
    }
}
