//! What the prefiller and the decoder are asked by connector `nixlv2`.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::object::Object;

/// The APIs whose requests generate, by where each bounds the number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    /// Chat, completions and messages.
    Completions,
    /// `/v1/responses`.
    Responses,
    /// `/inference/v1/generate`, which has its bounds in `sampling_params`.
    Generate,
}

/// What the prefiller is told: keep the cache for somebody to fetch.
#[derive(Serialize)]
struct Handover {
    do_remote_decode: bool,
    do_remote_prefill: bool,
    remote_engine_id: Option<()>,
    remote_block_ids: Option<()>,
    remote_host: Option<()>,
    remote_port: Option<()>,
}

const TRANSFER: &str = "kv_transfer_params";
const SAMPLING: &str = "sampling_params";

const PREFILL: Handover = Handover {
    do_remote_decode: true,
    do_remote_prefill: false,
    remote_engine_id: None,
    remote_block_ids: None,
    remote_host: None,
    remote_port: None,
};

/// What the prefiller's answer says.
#[derive(Debug, Clone)]
pub(crate) struct Prefilled {
    /// Where the cache is: handed to the decoder as it is.
    pub(crate) transfer: Box<RawValue>,
    /// Tokens of the prompt that the prefiller had cached.
    pub(crate) cached_tokens: u64,
}

// === impl Api ===

impl Api {
    /// The API of a path, where requests to it generate.
    pub(crate) fn of(path: &str) -> Option<Self> {
        match path {
            "/v1/chat/completions" | "/v1/completions" | "/v1/messages" => Some(Self::Completions),
            "/v1/responses" => Some(Self::Responses),
            "/inference/v1/generate" => Some(Self::Generate),
            _ => None,
        }
    }
}

/// The prefiller computes the prompt and one token, and does not stream.
pub(crate) fn prefill_body(api: Api, request: &Object<'_>) -> Vec<u8> {
    let mut body = request.clone();
    body.set_value(TRANSFER, &PREFILL);
    body.set_value("stream", &false);
    body.remove("stream_options");
    match api {
        Api::Completions => {
            for limit in ["max_tokens", "max_completion_tokens", "min_tokens"] {
                body.set_value(limit, &1);
            }
        }
        Api::Responses => body.set_value("max_output_tokens", &1),
        Api::Generate => {
            let mut sampling = sampling(request).unwrap_or_default();
            sampling.set_value("max_tokens", &1);
            sampling.set_value("min_tokens", &1);
            body.set_value(SAMPLING, &sampling);
        }
    }
    body.to_vec()
}

/// The decoder gets what the client asked, and where the cache is.
pub(crate) fn decode_body(api: Api, request: &Object<'_>, prefilled: &Prefilled) -> Vec<u8> {
    let mut body = request.clone();
    body.set(TRANSFER, Cow::Borrowed(&prefilled.transfer));
    if api == Api::Generate && sampling(request).is_none() {
        // as the reference: what is not an object was no bound either
        body.remove(SAMPLING);
    }
    body.to_vec()
}

fn sampling<'a>(request: &'a Object<'_>) -> Option<Object<'a>> {
    Object::parse(request.get(SAMPLING)?.get().as_bytes()).ok()
}

// === impl Prefilled ===

impl Prefilled {
    /// Reads the prefiller's answer; without `kv_transfer_params` the decoder gets none and computes the prompt itself.
    pub(crate) fn read(answer: &[u8]) -> Result<Self, serde_json::Error> {
        let answer = Object::parse(answer)?;
        let transfer = answer.get(TRANSFER).unwrap_or(RawValue::NULL).to_owned();
        let cached = || {
            let usage = Object::parse(answer.get("usage")?.get().as_bytes()).ok()?;
            let details = Object::parse(usage.get("prompt_tokens_details")?.get().as_bytes()).ok()?;
            details.get("cached_tokens")?.get().parse::<f64>().ok()
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count of tokens; the cast saturates"
        )]
        let cached_tokens = cached().unwrap_or_default() as u64;
        Ok(Self { transfer, cached_tokens })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn value(text: &[u8]) -> Value {
        serde_json::from_slice(text).unwrap()
    }

    fn prefilled() -> Prefilled {
        Prefilled::read(br#"{"kv_transfer_params":{"remote_port":5600},"usage":{"prompt_tokens_details":{"cached_tokens":4}}}"#)
            .unwrap()
    }

    #[test]
    fn chat_has_three_bounds_and_they_come_back() {
        let text = br#"{"model":"m","max_tokens":50,"stream":true,"stream_options":{"include_usage":true}}"#;
        let request = Object::parse(text).unwrap();
        let prefill = value(&prefill_body(Api::Completions, &request));
        for limit in ["max_tokens", "max_completion_tokens", "min_tokens"] {
            assert_eq!(prefill[limit], json!(1));
        }
        assert_eq!(prefill["stream"], json!(false));
        assert!(prefill.get("stream_options").is_none());
        let mut expected = value(text);
        expected[TRANSFER] = json!({"remote_port": 5600});
        assert_eq!(value(&decode_body(Api::Completions, &request, &prefilled())), expected);
    }

    #[test]
    fn an_answer_without_parameters_gives_the_decoder_none() {
        let prefilled = Prefilled::read(b"{}").unwrap();
        assert_eq!(prefilled.transfer.get(), "null");
        assert_eq!(prefilled.cached_tokens, 0);
        assert!(Prefilled::read(b"[]").is_err());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Into::into),
            "[ -~]{0,8}".prop_map(Value::String)
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::hash_map(name(), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect()))
            ]
        })
    }

    fn name() -> impl Strategy<Value = String> {
        prop_oneof![
            Just(TRANSFER.to_owned()),
            Just(SAMPLING.to_owned()),
            Just("stream".to_owned()),
            Just("stream_options".to_owned()),
            Just("max_tokens".to_owned()),
            Just("max_output_tokens".to_owned()),
            "[a-z]{1,4}".prop_map(|name| name)
        ]
    }

    proptest! {
        #[test]
        fn the_decoder_gets_what_the_client_sent_but_for_the_parameters(
            entries in prop::collection::hash_map(name(), any_json(), 0..8),
            api in prop_oneof![Just(Api::Completions), Just(Api::Responses), Just(Api::Generate)],
        ) {
            let client = Value::Object(entries.into_iter().collect());
            let text = serde_json::to_vec(&client).unwrap();
            let request = Object::parse(&text).unwrap();
            let prefill = value(&prefill_body(api, &request));
            prop_assert_eq!(&prefill["stream"], &json!(false));
            prop_assert_eq!(&prefill[TRANSFER]["do_remote_decode"], &json!(true));
            prop_assert!(prefill.get("stream_options").is_none());
            let mut expected = client;
            expected[TRANSFER] = json!({"remote_port": 5600});
            if api == Api::Generate && !expected[SAMPLING].is_object() {
                expected.as_object_mut().unwrap().remove(SAMPLING);
            }
            prop_assert_eq!(value(&decode_body(api, &request, &prefilled())), expected);
        }

        #[test]
        fn no_body_makes_reading_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Prefilled::read(&bytes);
            if let Ok(request) = Object::parse(&bytes) {
                let _ = prefill_body(Api::Generate, &request);
            }
        }
    }
}
