//! The verdicts about responses and about the counters of engines.

use std::time::Duration;

use super::{
    Answer, Counters, Id, Outcome, PodAddress, PodMetrics, Probe, ProbeError, ProbeObservation, Role,
    is_conclusive, judge, max_model_len,
};

fn probe(disaggregated: bool) -> Probe {
    let pod = |name: &str, role| PodAddress { name: name.into(), role, url: format!("http://{name}:8000") };
    let mut pods = vec![pod("decode-1", Role::Decode)];
    if disaggregated {
        pods.push(pod("prefill-1", Role::Prefill));
    }
    Probe {
        id: Id { subject: "s".into(), reconciled: "w".into(), attempt: 1 },
        delay: Duration::ZERO,
        url: "http://gw/ns/llm/v1/completions".into(),
        model_header: None,
        trusted: Vec::new(),
        pods,
        pod_certificate: None,
        left_out: 0,
        disaggregated,
        has_picker: true,
        connectors: "connector of prefill and decode: NixlConnector".into(),
        model: "llm".into(),
        names: vec!["llm".into(), "publishers/ns/models/llm".into()],
        words: if disaggregated { 512 } else { 0 },
        trust_hint: "Put the certificate somewhere".into(),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it stands beside answers that did not come")]
fn answer(code: u16, body: &str) -> Result<Answer, ProbeError> {
    Ok(Answer { code, body: body.as_bytes().to_vec() })
}

const TOKEN: &str = r#"{"model": "llm", "choices": [{"text": " a"}],
    "usage": {"prompt_tokens": 1000, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}}}"#;

/// Returns the outcome for a response. `engines` is whether engines respond at their pods; `None` if they were not asked.
fn said(answer: Result<Answer, ProbeError>, engines: Option<bool>) -> Outcome {
    let pods = engines.map(|fine| PodMetrics {
        before: None,
        after: if fine { Ok(Counters::default()) } else { Err("connection refused".into()) },
    });
    judge(&probe(false), &ProbeObservation { answer, pods: pods.into_iter().collect(), at: 7 })
}

#[test]
fn a_token_of_this_model_proves_and_everything_else_names_the_link_that_broke() {
    let proven = said(answer(200, TOKEN), None);
    assert!(proven.serving.is_true() && proven.transfer.is_none(), "{proven:?}");
    assert!(
        proven
            .serving
            .message()
            .contains("http://gw/ns/llm/v1/completions answered with a token of model llm")
    );
    let published = TOKEN.replace("\"llm\"", "\"publishers/ns/models/llm\"");
    assert!(said(answer(200, &published), None).serving.is_true());
    // An end-of-text token counts as a token, although it has no text.
    assert!(said(answer(200, &TOKEN.replace(" a", "")), None).serving.is_true());

    let broken = |why: &str| why.to_owned();
    let openai =
        r#"{"error": {"message": "The model `llm` does not exist.", "type": "NotFoundError", "code": 404}}"#;
    let older = r#"{"object": "error", "message": "no device", "code": 500}"#;
    let none = TOKEN.replace("\"completion_tokens\": 1", "\"completion_tokens\": 0").replace(" a", "");
    for (seen, engines, reason, words) in [
        (
            Err(ProbeError::Connection(broken("Connection refused"))),
            None,
            "GatewayUnreachable",
            "refused. Check the pods, the Service",
        ),
        (
            Err(ProbeError::Certificate(broken("UnknownIssuer"))),
            None,
            "GatewayNotTrusted",
            "UnknownIssuer. Put the certificate somewhere",
        ),
        (
            Err(ProbeError::Trust(broken("no certificate"))),
            None,
            "GatewayNotTrusted",
            "are invalid: no certificate",
        ),
        (
            Err(ProbeError::Silence(30)),
            Some(true),
            "NoAnswer",
            "within 30 s; the engines answer other requests at their pods",
        ),
        (Err(ProbeError::Silence(30)), Some(false), "NoAnswer", "do not answer at their pods either"),
        (Err(ProbeError::Broken(broken("reset"))), None, "NoAnswer", "was cut off: reset"),
        (
            answer(404, "no HTTPRoute matches /x\n"),
            Some(true),
            "NoRoute",
            "no route for http://gw/ns/llm/v1/completions (no HTTPRoute matches /x)",
        ),
        (
            answer(404, r#"{"error":{"message":"longboat gateway: no HTTPRoute matches /x","code":404}}"#),
            Some(true),
            "NoRoute",
            "no HTTPRoute matches /x",
        ),
        (answer(404, openai), Some(true), "ModelNotServed", "--served-model-name"),
        (answer(401, ""), Some(true), "CredentialsRequired", "answered 401: the route"),
        (
            answer(401, r#"{"error":"Unauthorized"}"#),
            Some(true),
            "CredentialsRequired",
            "the engine answered 401 at http://gw/ns/llm/v1/completions: it asks for an API key",
        ),
        (
            answer(429, "inference error: ResourceExhausted - no decode workers"),
            Some(true),
            "PickerFailed",
            "no decode workers",
        ),
        (
            answer(503, r#"{"error":{"message":"inference error: ServiceUnavailable - no candidates"}}"#),
            Some(true),
            "PickerFailed",
            "no candidates",
        ),
        (answer(400, "too long"), Some(true), "RequestRefused", "with 400 (too long)"),
        (answer(503, ""), Some(true), "PickerFailed", "answered 503: the picker"),
        (answer(503, "no healthy upstream"), Some(false), "EngineFailed", "container main"),
        (answer(500, older), Some(true), "EngineFailed", "no device"),
        (answer(200, "<html>"), None, "UnreadableAnswer", "(<html>): the route leads to another server"),
        (
            answer(200, &TOKEN.replace("\"llm\"", "\"other\"")),
            None,
            "WrongModel",
            "answered by a model other",
        ),
        (answer(200, "{}"), None, "WrongModel", "answered by a model without a name"),
        (answer(200, &none), None, "NoToken", "without a token"),
    ] {
        let Outcome { serving, .. } = said(seen.clone(), engines);
        assert!(!serving.is_true(), "{seen:?}");
        assert_eq!(serving.reason(), reason, "{seen:?}: {}", serving.message());
        assert!(serving.message().contains(words), "{reason}: {}", serving.message());
    }
}

#[test]
fn what_others_wrote_is_repeated_in_part_and_in_one_line() {
    let noise = format!("a\u{1b}[31m\n\tb {}", "é".repeat(400_000));
    let Outcome { serving, .. } = said(answer(502, &noise), Some(true));
    assert!(
        serving.message().len() < 1000 && serving.message().contains("a [31m b é"),
        "{}",
        serving.message()
    );
    assert!(!serving.message().contains(char::is_control));
}

/// Returns the outcome for two pods whose metrics changed during a request.
fn transfer(decode: (&str, &str), prefill: (&str, &str), body: &str) -> (Outcome, bool) {
    let pages = |(before, after): (&str, &str)| PodMetrics {
        before: Some(Counters::read(before.as_bytes())),
        after: Ok(Counters::read(after.as_bytes())),
    };
    let seen =
        ProbeObservation { answer: answer(200, body), pods: vec![pages(decode), pages(prefill)], at: 7 };
    (judge(&probe(true), &seen), is_conclusive(&probe(true), &seen))
}

#[test]
fn a_transfer_is_observed_by_what_the_decode_side_says_and_else_the_link_is_named() {
    let (idle, used) = ("vllm:prompt_tokens_total 5", "vllm:prompt_tokens_total 1005");
    let (none, some) =
        ("vllm:external_prefix_cache_hits_total 9", "vllm:external_prefix_cache_hits_total 1008");
    let worked = (idle, used);
    let cached = TOKEN.replace("\"cached_tokens\": 0", "\"cached_tokens\": 992");
    let nixl = ("vllm:nixl_num_failed_transfers_total 0", "vllm:nixl_num_failed_transfers_total 1");
    let page = |hits: u32, failed: u32, bytes: u32| {
        format!(
            "vllm:external_prefix_cache_hits_total {hits}\nvllm:nixl_num_failed_transfers_total {failed}\n\
             vllm:nixl_bytes_transferred_sum {bytes}"
        )
    };
    let [before, recomputed, repeated] = [page(9, 0, 5), page(1008, 1, 5), page(1008, 1, 4005)];
    let (planned, partly) = ((&*before, &*recomputed), (&*before, &*repeated));
    for (decode, prefill, body, reason, words) in [
        ((none, some), worked, TOKEN, "KVTransferred", "vllm:external_prefix_cache_hits increased"),
        (
            ("", "vllm:nixl_bytes_transferred_sum 4e6"),
            worked,
            TOKEN,
            "KVTransferred",
            "vllm:nixl_bytes_transferred increased",
        ),
        (
            (none, none),
            worked,
            cached.as_str(),
            "KVTransferred",
            "992 of 1000 tokens of a new prompt in its cache (usage.",
        ),
        ((none, none), worked, TOKEN, "KVNotTransferred", "compare --kv-transfer-config"),
        (
            (none, none),
            worked,
            TOKEN,
            "KVNotTransferred",
            "; connector of prefill and decode: NixlConnector)",
        ),
        ((none, none), (idle, idle), TOKEN, "PrefillNotUsed", "the decode pods have no routing sidecar"),
        (nixl, worked, TOKEN, "TransferFailed", "VLLM_NIXL_SIDE_CHANNEL_PORT"),
        (nixl, worked, TOKEN, "TransferFailed", "; connector of prefill and decode: NixlConnector)"),
        // vLLM 0.32 with `kv_load_failure_policy: recompute`.
        (planned, worked, cached.as_str(), "TransferFailed", "and computed the prompt again"),
        (partly, worked, TOKEN, "KVTransferred", "vllm:external_prefix_cache_hits increased"),
        (("", ""), worked, TOKEN, "NoEvidence", "has no metric of transfers"),
    ] {
        let (outcome, conclusive) = transfer(decode, prefill, body);
        assert!(outcome.serving.is_true(), "{outcome:?}");
        let verdict = outcome.transfer.unwrap();
        assert_eq!(verdict.reason(), reason, "{}", verdict.message());
        assert!(verdict.message().contains(words), "{reason}: {}", verdict.message());
        assert_eq!((verdict.is_true(), conclusive), (reason == "KVTransferred", reason == "KVTransferred"));
    }
}

#[test]
fn where_there_is_no_picker_prefill_is_used_by_nobody_and_the_message_says_why() {
    let page = |text: &str| PodMetrics {
        before: Some(Counters::read(text.as_bytes())),
        after: Ok(Counters::read(text.as_bytes())),
    };
    let pods = vec![page("vllm:external_prefix_cache_hits_total 0"), page("vllm:prompt_tokens_total 0")];
    let probe = Probe { has_picker: false, ..probe(true) };
    let verdict =
        judge(&probe, &ProbeObservation { answer: answer(200, TOKEN), pods, at: 7 }).transfer.unwrap();
    assert_eq!(verdict.reason(), "PrefillNotUsed");
    assert!(verdict.message().contains("no picker to choose one"), "{}", verdict.message());
}

#[test]
fn without_metrics_or_without_an_answer_nothing_is_claimed_of_a_transfer() {
    let unreadable = PodMetrics { before: None, after: Err("no metrics within 3 s".into()) };
    let seen =
        |answer| ProbeObservation { answer, pods: vec![unreadable.clone(), unreadable.clone()], at: 7 };
    let verdict = judge(&probe(true), &seen(answer(200, TOKEN))).transfer.unwrap();
    assert_eq!(verdict.reason(), "MetricsUnreadable");
    assert!(verdict.message().contains("no metrics within 3 s"), "{}", verdict.message());
    let outcome = judge(&probe(true), &seen(Err(ProbeError::Silence(30))));
    assert_eq!(outcome.serving.reason(), "NoAnswer");
    assert!(outcome.transfer.unwrap().message().contains("see condition ServingProven"));
}

#[test]
fn a_prompt_is_new_to_every_cache_and_long_enough_where_it_has_to_cross() {
    let body =
        |probe: &Probe, nonce| serde_json::from_slice::<serde_json::Value>(&probe.body(nonce, None)).unwrap();
    let (long, other) = (body(&probe(true), 1), body(&probe(true), 2));
    assert_eq!((&long["model"], &long["max_tokens"]), (&"llm".into(), &1.into()));
    let (long, other) = (long["prompt"].as_str().unwrap(), other["prompt"].as_str().unwrap());
    assert_ne!(long[..16], other[..16]);
    assert_eq!(long.split(' ').count(), 513);
    assert_eq!(body(&probe(false), 1)["prompt"], "0000000000000001");
}

#[test]
fn a_prompt_fits_into_the_context_of_its_engine() {
    let words = |max_model_len| {
        let body: serde_json::Value = serde_json::from_slice(&probe(true).body(1, max_model_len)).unwrap();
        let prompt = body["prompt"].as_str().unwrap();
        assert!(max_model_len.is_none_or(|tokens| tokens < 32 || prompt.len() < tokens), "{max_model_len:?}");
        prompt.split(' ').count() - 1
    };
    assert_eq!([None, Some(1 << 20), Some(2048), Some(40), Some(0)].map(words), [512, 512, 336, 1, 0]);
}

#[test]
fn a_list_of_models_tells_the_shortest_context() {
    for (page, expected) in [
        (r#"{"data": [{"id": "a", "max_model_len": 4096}, {"id": "b", "max_model_len": 2048}]}"#, Some(2048)),
        (r#"{"data": [{"id": "a", "max_model_len": null}, {"id": "lora"}]}"#, None),
        (r#"{"data": [{"max_model_len": -1}]}"#, None),
        (r#"{"data": {}}"#, None),
        ("not found", None),
    ] {
        assert_eq!(max_model_len(page.as_bytes()), expected, "{page}");
    }
}
