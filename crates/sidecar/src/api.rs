//! The APIs that generate tokens, and the fields of each that limit the number of tokens.

use crate::object::Object;

/// The field of `/inference/v1/generate` that contains the limits.
pub(crate) const SAMPLING: &str = "sampling_params";

/// The path of the chat API. Encoders serve it too.
pub(crate) const CHAT: &str = "/v1/chat/completions";

/// An API, by the fields that limit the number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    /// Chat, completions and messages.
    Completions,
    /// `/v1/responses`.
    Responses,
    /// `/inference/v1/generate`. Its limits are in `sampling_params`.
    Generate,
}

// === impl Api ===

impl Api {
    /// Returns the API of a path. Returns `None` if requests to the path do not generate tokens.
    pub(crate) fn of(path: &str) -> Option<Self> {
        match path {
            CHAT | "/v1/completions" | "/v1/messages" => Some(Self::Completions),
            "/v1/responses" => Some(Self::Responses),
            "/inference/v1/generate" => Some(Self::Generate),
            _ => None,
        }
    }

    /// Sets every limit of the API to exactly one token.
    pub(crate) fn one_token(self, body: &mut Object<'_>) {
        match self {
            Self::Completions => {
                // vLLM reads `max_completion_tokens` before `max_tokens`, and refuses a minimum above them.
                for limit in ["max_tokens", "max_completion_tokens", "min_tokens"] {
                    body.set_value(limit, &1);
                }
            }
            Self::Responses => body.set_value("max_output_tokens", &1),
            Self::Generate => in_sampling(body, |sampling| {
                sampling.set_value("max_tokens", &1);
                sampling.set_value("min_tokens", &1);
            }),
        }
    }

    /// Sets `max_tokens` to one, and the other limits only if the client has set them. An engine refuses a request whose
    /// `min_tokens` is above its `max_tokens`.
    pub(crate) fn at_most_one_token(self, body: &mut Object<'_>) {
        let lower = |body: &mut Object<'_>, limits: &[&str]| {
            body.set_value("max_tokens", &1);
            for limit in limits {
                if body.get(limit).is_some() {
                    body.set_value(limit, &1);
                }
            }
        };
        match self {
            Self::Completions => lower(body, &["max_completion_tokens", "min_tokens"]),
            Self::Responses => body.set_value("max_output_tokens", &1),
            Self::Generate => in_sampling(body, |sampling| lower(sampling, &["min_tokens"])),
        }
    }
}

/// Turns streaming off. The sidecar reads a prefill's response as a whole.
pub(crate) fn no_stream(body: &mut Object<'_>) {
    body.set_value("stream", &false);
    // vLLM refuses it without `stream`.
    body.remove("stream_options");
}

/// Returns the `sampling_params` of the generate API, if they are an object.
pub(crate) fn sampling<'a>(request: &'a Object<'_>) -> Option<Object<'a>> {
    Object::parse(request.get(SAMPLING)?.get().as_bytes()).ok()
}

fn in_sampling(body: &mut Object<'_>, change: impl FnOnce(&mut Object<'_>)) {
    let text = body.get(SAMPLING).map(|value| value.get().to_owned()).unwrap_or_default();
    let mut sampling = Object::parse(text.as_bytes()).unwrap_or_default();
    change(&mut sampling);
    body.set_value(SAMPLING, &sampling);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_lower_bound_never_stays_above_the_upper_one() {
        for (api, text, expected) in [
            (Api::Completions, json!({"min_tokens": 4}), json!({"min_tokens": 1, "max_tokens": 1})),
            (
                Api::Completions,
                json!({"max_completion_tokens": 9}),
                json!({"max_completion_tokens": 1, "max_tokens": 1}),
            ),
            (Api::Responses, json!({"max_output_tokens": 9}), json!({"max_output_tokens": 1})),
            (
                Api::Generate,
                json!({"sampling_params": {"min_tokens": 4, "seed": 1}}),
                json!({"sampling_params": {"min_tokens": 1, "max_tokens": 1, "seed": 1}}),
            ),
            (Api::Generate, json!({"sampling_params": "x"}), json!({"sampling_params": {"max_tokens": 1}})),
        ] {
            let text = text.to_string();
            let mut body = Object::parse(text.as_bytes()).unwrap();
            api.at_most_one_token(&mut body);
            let body: Value = serde_json::from_slice(&body.to_vec()).unwrap();
            assert_eq!(body, expected, "{api:?} {text}");
        }
    }
}
