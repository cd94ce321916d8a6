//! The APIs whose requests generate, and where each of them bounds the number of tokens.

use crate::object::Object;

/// The field that holds the bounds of `/inference/v1/generate`.
pub(crate) const SAMPLING: &str = "sampling_params";

/// The path of the chat API, which encoders answer too.
pub(crate) const CHAT: &str = "/v1/chat/completions";

/// An API, by where it bounds the number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    /// Chat, completions and messages.
    Completions,
    /// `/v1/responses`.
    Responses,
    /// `/inference/v1/generate`, which has its bounds in `sampling_params`.
    Generate,
}

// === impl Api ===

impl Api {
    /// The API of a path, where requests to it generate.
    pub(crate) fn of(path: &str) -> Option<Self> {
        match path {
            CHAT | "/v1/completions" | "/v1/messages" => Some(Self::Completions),
            "/v1/responses" => Some(Self::Responses),
            "/inference/v1/generate" => Some(Self::Generate),
            _ => None,
        }
    }

    /// Asks for exactly one token, in every field that the API has for it.
    pub(crate) fn one_token(self, body: &mut Object<'_>) {
        match self {
            Self::Completions => {
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
}

/// A prefill answers at once; nobody reads a stream of it.
pub(crate) fn no_stream(body: &mut Object<'_>) {
    body.set_value("stream", &false);
    body.remove("stream_options");
}

/// The bounds of the generate API, where they are an object.
pub(crate) fn sampling<'a>(request: &'a Object<'_>) -> Option<Object<'a>> {
    Object::parse(request.get(SAMPLING)?.get().as_bytes()).ok()
}

fn in_sampling(body: &mut Object<'_>, change: impl FnOnce(&mut Object<'_>)) {
    let text = body.get(SAMPLING).map(|value| value.get().to_owned()).unwrap_or_default();
    let mut sampling = Object::parse(text.as_bytes()).unwrap_or_default();
    change(&mut sampling);
    body.set_value(SAMPLING, &sampling);
}
