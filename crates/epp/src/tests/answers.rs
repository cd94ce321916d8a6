//! Bodies as attackers and careless clients send them: each goes on unchanged, or is refused with a reason.

use longboat_extproc::{Action, Reply};

use super::support::{self, Stream};
use crate::monitoring::metrics_page;

const CONFIG: &str = "
plugins: [{type: prefix-cache-scorer}, {type: mm-embeddings-cache-scorer}, {type: openai-parser}, {type: anthropic-parser},
  {type: vllmhttp-parser}, {type: vllmgrpc-parser}]
requestHandler: {parsers: [{pluginRef: openai-parser}, {pluginRef: anthropic-parser}, {pluginRef: vllmhttp-parser},
  {pluginRef: vllmgrpc-parser}]}
";

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";
const GENERATE: &str = "/vllm.grpc.engine.VllmEngine/Generate";

fn sent(replies: &[Reply]) -> Vec<u8> {
    let bodies = replies.iter().filter_map(|reply| match &reply.action {
        Action::RequestBody { body, .. } => Some(body.to_vec()),
        _ => None,
    });
    bodies.flatten().collect()
}

/// Returns why a request is refused, or an empty text if it goes on unchanged.
fn refusal(path: &str, body: &[u8]) -> String {
    let core = support::core(CONFIG);
    support::with_endpoints(&core, 1);
    let mut stream = Stream::open(&core);
    let replies = stream.request(path, &[], body, None);
    let reason = match &replies[0].action {
        Action::Immediate(answer) => {
            assert_eq!(answer.status, 400);
            String::from_utf8_lossy(&answer.body).into_owned()
        }
        Action::RequestHeaders(_) => {
            assert_eq!(sent(&replies), body, "the body is sent on as it came");
            String::new()
        }
        other => panic!("{other:?}"),
    };
    drop((stream, replies));
    assert_eq!(core.bodies.held(), 0);
    reason
}

#[test]
fn each_body_goes_on_unchanged_or_is_refused_with_a_reason() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let deep =
        format!(r#"{{"model":"m","messages":[{{"role":"user","content":"x"}}],"x":{}}}"#, nested(200_000));
    let deeper = format!(r#"{{"model":"m","messages":{}}}"#, nested(200_000));
    let text = |text: &str| text.as_bytes().to_vec();
    for (path, body, reason) in [
        (CHAT, text(&deep), ""),
        (CHAT, text(&deeper), ""),
        (
            CHAT,
            text(
                r#"{"model":"m","messages":[{"role":"user","content":"x"}],"seed":99999999999999999999999999,"top_p":1e9999}"#,
            ),
            "",
        ),
        (
            CHAT,
            text(
                r#"{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url",
            "image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"image_url"},{"type":"input_audio","input_audio":5},7]}]}"#,
            ),
            "",
        ),
        (CHAT, text(r#"{"model":"m","messages":[{"role":"user","content":{"a":1}}]}"#), ""),
        (CHAT, text(r#"{"model":"m","messages":[null,5,"x"]}"#), ""),
        (
            CHAT,
            text(r#"{"model":"m","messages":[{"role":"user","content":"x"}],"messages":[]}"#),
            "must have valid messages field",
        ),
        (CHAT, b"{\"model\":\"m\xff\",\"messages\":[{}]}".to_vec(), "invalid unicode code point"),
        (
            CHAT,
            b"{\"model\":\"m\",\"messages\":[{\"content\":\"\xff\xfe\"}]}".to_vec(),
            "invalid unicode code point",
        ),
        (CHAT, text(r#"{"messages":[{"role":"user","content":"x"}]}"#), "model not found in request body"),
        (
            CHAT,
            text(r#"{"model":"","messages":[{"role":"user","content":"x"}]}"#),
            "model not found in request body",
        ),
        (
            CHAT,
            text(r#"{"model":5,"messages":[{"role":"user","content":"x"}]}"#),
            "model not found in request body",
        ),
        (CHAT, text(r#"{"model":"m","messages":"hi"}"#), "must have valid messages field"),
        (CHAT, text(r#"{"model":"m"}"#), "must have valid messages field"),
        (CHAT, text(""), "unexpected end of JSON input"),
        (CHAT, text("{"), "unexpected end of JSON input"),
        (CHAT, text("[]"), "cannot unmarshal array"),
        (CHAT, text("null"), "must have valid messages field"),
        (CHAT, text(r#"{"model":"m","messages":[{}]} trailing"#), "trailing characters"),
        (CHAT, text("\u{feff}{}"), "expected value"),
        (CHAT, text("model=m&prompt=x"), "expected value"),
        (CHAT, text("--x\r\n\r\n--x--"), "invalid number"),
        (COMPLETIONS, text(r#"{"model":"m\u0000\n","prompt":"x"}"#), ""),
        (COMPLETIONS, text(r#"{"model":"m","prompt":[1,2,99999999999,-3]}"#), ""),
        (COMPLETIONS, text(r#"{"model":"m","prompt":[[1,2],"x",[3.5]]}"#), ""),
        (COMPLETIONS, text(r#"{"model":"m","prompt":{"a":1}}"#), "must have prompt field"),
        ("/v1/responses", text(r#"{"model":"m","input":5}"#), "must have input field"),
        ("/v1/embeddings", text(r#"{"model":"m"}"#), "must have input field"),
        ("/v1/unknown", text("{}"), "no parser registered matching path suffix for: /v1/unknown"),
        (GENERATE, text(""), "shorter than its header says"),
        (GENERATE, b"\0\0\0\0\x05abc".to_vec(), "shorter than its header says"),
        (GENERATE, b"\0\xff\xff\xff\xffabc".to_vec(), "shorter than its header says"),
        (GENERATE, b"\x01\0\0\0\x03abc".to_vec(), "it is compressed"),
        (GENERATE, text(r#"{"model":"m"}"#), "gRPC payload"),
    ] {
        let found = refusal(path, &body);
        let shown: String = String::from_utf8_lossy(&body).chars().take(80).collect();
        assert_eq!(found.is_empty(), reason.is_empty(), "{path} {shown}: {found}");
        assert!(found.contains(reason), "{path} {shown}: {found}");
    }
}

/// Model servers take the last of two values, so the picker must not look at the first.
#[test]
fn of_two_models_the_last_counts_and_a_rewrite_replaces_it() {
    let core = support::core(CONFIG);
    support::with_endpoints(&core, 1);
    let body = br#"{"model":"allowed","model":"dear","prompt":"x"}"#;
    let mut stream = Stream::open(&core);
    stream.request(COMPLETIONS, &[], body, None);
    assert!(metrics_page(&core).contains("llm_d_epp_request_total{model_name=\"dear\""));
    let headers = [("x-llm-d-model-name-rewrite", "cheap")];
    let replies = Stream::open(&core).request(COMPLETIONS, &headers, body, None);
    let value: serde_json::Value = serde_json::from_slice(&sent(&replies)).unwrap();
    assert_eq!(value["model"], "cheap", "serde_json takes the last one too");
}
