//! Connector `nixlv2`: the prefiller's response contains the location of the KV cache, and the decoder fetches the cache from
//! there.

use serde_json::{Value, json, value::RawValue};

use super::{
    moriio::{Moriio, Pods},
    p2p,
    plan::{Decode, Part, Plan, SplitRequest, TRANSFER, decode_body},
};
use crate::{api, object::Object, usage::cached_tokens};

/// The connector.
#[derive(Debug)]
pub(crate) struct Nixl {
    /// The ports for pulling blocks from other engines. `None` if this is off.
    pub(crate) ports: Option<p2p::Ports>,
    /// The mode in which prefillers write caches into the decoder's memory.
    pub(crate) moriio: Option<Moriio>,
}

/// The data of the prefiller's response.
#[derive(Debug, Clone)]
pub(crate) struct PrefillResult {
    /// The location of the cache. The decoder receives this value unchanged.
    pub(crate) transfer: Box<RawValue>,
    /// The prompt tokens that the prefiller had cached.
    pub(crate) cached_tokens: u64,
}

// === impl Nixl ===

impl Nixl {
    /// Divides a request.
    ///
    /// # Errors
    /// A message if the address of a pod is not known.
    pub(crate) async fn plan<'a>(&'a self, ask: SplitRequest<'a>) -> Result<Plan<'a>, String> {
        match &self.moriio {
            None => Ok(self.read(ask)),
            Some(moriio) => {
                let pods = moriio.pods().await?;
                Ok(self.write(moriio, pods, ask))
            }
        }
    }

    /// Divides a request for the mode in which the decoder reads the cache.
    pub(crate) fn read<'a>(&self, ask: SplitRequest<'a>) -> Plan<'a> {
        let prefill = Part::from(&self.prefill_body(ask));
        let decode = Box::new(move |answer: &[u8]| {
            let PrefillResult { transfer, cached_tokens } = PrefillResult::read(answer)?;
            let part = Part::from(&decode_body(ask.api, ask.request, &transfer));
            Ok(Decode { part, cached_tokens: Some(cached_tokens) })
        });
        Plan::InTurn { prefill, decode }
    }

    /// Divides a request for the mode in which the prefiller writes the cache.
    pub(crate) fn write<'a>(&self, moriio: &'a Moriio, pods: Pods, ask: SplitRequest<'a>) -> Plan<'a> {
        let mut handover = self.handover(ask);
        moriio.for_prefiller(ask.id, &pods, &mut handover);
        let prefill = moriio.prefill_part(ask, &handover);
        if let Some(patience) = moriio.parallel() {
            return moriio.at_once(ask, &pods, prefill, patience);
        }
        let decode = Box::new(move |answer: &[u8]| {
            let PrefillResult { transfer, cached_tokens } = PrefillResult::read(answer)?;
            let part = moriio.after_prefill(ask, &pods, &transfer);
            Ok(Decode { part, cached_tokens: Some(cached_tokens) })
        });
        Plan::InTurn { prefill, decode }
    }

    /// Builds the prefiller's request: it computes the prompt and one token, and does not stream.
    fn prefill_body<'a>(&self, ask: SplitRequest<'a>) -> Object<'a> {
        let mut body = ask.request.clone();
        body.set_value(TRANSFER, &self.handover(ask));
        api::no_stream(&mut body);
        ask.api.one_token(&mut body);
        body
    }

    /// Returns the prefiller's transfer parameters. They say that another engine continues the request.
    fn handover(&self, ask: SplitRequest<'_>) -> Value {
        // As in the reference: the fields that name a cache are there, and empty.
        let mut handover = json!({
            "do_remote_decode": true,
            "do_remote_prefill": false,
            "remote_engine_id": null,
            "remote_block_ids": null,
            "remote_host": null,
            "remote_port": null,
        });
        if let Some(peer) = self.ports.and_then(|ports| ports.pull(ask.source, ask.prefiller)) {
            handover[p2p::SOURCE] = json!(peer);
        }
        handover
    }
}

// === impl PrefillResult ===

impl PrefillResult {
    /// Reads the prefiller's response. Without `kv_transfer_params`, the decoder receives `null` and computes the prompt
    /// itself.
    pub(crate) fn read(answer: &[u8]) -> Result<Self, serde_json::Error> {
        let answer = Object::parse(answer)?;
        let transfer = answer.get(TRANSFER).unwrap_or(RawValue::NULL).to_owned();
        Ok(Self { transfer, cached_tokens: cached_tokens(&answer) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;
    use crate::{
        api::{Api, SAMPLING},
        target::Target,
    };

    fn value(body: &Object<'_>) -> Value {
        serde_json::from_slice(&body.to_vec()).unwrap()
    }

    fn prefill(api: Api, request: &Object<'_>) -> Value {
        let prefiller = Target::parse("10.0.0.1:8000").unwrap();
        let ask = SplitRequest { api, request, prefiller: &prefiller, id: Uuid::nil(), source: None };
        value(&Nixl { ports: None, moriio: None }.prefill_body(ask))
    }

    fn prefilled() -> PrefillResult {
        PrefillResult::read(br#"{"kv_transfer_params":{"remote_port":5600},"usage":{"prompt_tokens_details":{"cached_tokens":4}}}"#)
            .unwrap()
    }

    #[test]
    fn chat_has_three_bounds_and_they_come_back() {
        let text = br#"{"model":"m","max_tokens":50,"stream":true,"stream_options":{"include_usage":true}}"#;
        let request = Object::parse(text).unwrap();
        let prefill = prefill(Api::Completions, &request);
        for limit in ["max_tokens", "max_completion_tokens", "min_tokens"] {
            assert_eq!(prefill[limit], json!(1));
        }
        assert_eq!(prefill["stream"], json!(false));
        assert!(prefill.get("stream_options").is_none());
        let mut expected = value(&request);
        expected[TRANSFER] = json!({"remote_port": 5600});
        assert_eq!(value(&decode_body(Api::Completions, &request, &prefilled().transfer)), expected);
    }

    #[test]
    fn an_answer_without_parameters_gives_the_decoder_none() {
        let prefilled = PrefillResult::read(b"{}").unwrap();
        assert_eq!(prefilled.transfer.get(), "null");
        assert_eq!(prefilled.cached_tokens, 0);
        assert!(PrefillResult::read(b"[]").is_err());
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
            let prefill = prefill(api, &request);
            prop_assert_eq!(&prefill["stream"], &json!(false));
            prop_assert_eq!(&prefill[TRANSFER]["do_remote_decode"], &json!(true));
            prop_assert!(prefill.get("stream_options").is_none());
            let mut expected = client;
            expected[TRANSFER] = json!({"remote_port": 5600});
            if api == Api::Generate && !expected[SAMPLING].is_object() {
                expected.as_object_mut().unwrap().remove(SAMPLING);
            }
            prop_assert_eq!(value(&decode_body(api, &request, &prefilled().transfer)), expected);
        }
    }
}
