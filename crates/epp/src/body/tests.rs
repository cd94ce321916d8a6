use longboat_scheduler::{Prompt, config::Parser};
use proptest::prelude::*;
use serde_json::json;
use xxhash_rust::xxh64::xxh64;

use super::{
    Api, BodyError, ParsedBody, Reading, parse,
    parsed::{MAX_ELEMENTS, MAX_MODEL},
};

fn text(api: Api, body: &str) -> Vec<String> {
    parse(api, body.as_bytes(), &Reading::default())
        .unwrap()
        .prompts
        .into_iter()
        .map(|prompt| String::from_utf8(prompt.bytes).unwrap())
        .collect()
}

#[test]
fn a_path_belongs_to_the_api_of_its_first_fitting_suffix() {
    let parsers = [Parser::OpenAi, Parser::Anthropic, Parser::VllmHttp];
    for (path, api) in [
        ("/v1/chat/completions", Some(Api::ChatCompletions)),
        ("/ns/name/v1/completions?x=y", Some(Api::Completions)),
        ("/v1/completions/render", Some(Api::Completions)),
        ("/v1/chat/completions/render", Some(Api::ChatCompletions)),
        ("/v1/messages", Some(Api::Messages)),
        ("/v1/messages/count_tokens", Some(Api::CountTokens)),
        ("/inference/v1/generate", Some(Api::Generate)),
        ("/v1/models", None),
        ("", None),
    ] {
        assert_eq!(Api::of(path, &parsers), api, "{path}");
    }
}

#[test]
fn a_chat_is_hashed_as_tools_then_role_and_content_of_each_message() {
    let body = r#"{"messages":[{"content":"b\u0061r","role":"system"},{"role":"user","name":"x",
        "content":[{"type":"text","text":"one"},{"text":"two"},{"type":"image_url","image_url":{"url":"u"}}]}],
        "tools":[{"a": 1}],"model":"m","stream":true,"cache_salt":"s"}"#;
    let parsed = parse(Api::ChatCompletions, body.as_bytes(), &Reading::default()).unwrap();
    assert!(parsed.prompts[0].bytes.starts_with(b"[{\"a\": 1}]systembaruseronetwo"));
    assert!(parsed.stream && parsed.multimodal);
    assert_eq!((parsed.model.as_str(), parsed.cache_salt.as_str()), ("m", "s"));
    assert_eq!(&body[parsed.model_at], "\"m\"");
}

#[test]
fn each_api_has_its_own_limit_of_output() {
    let body = br#"{"model":"m","prompt":"p","input":"p","messages":[{"content":"p"}],
        "max_tokens":1,"max_completion_tokens":2,"max_output_tokens":3}"#;
    let limit = |api, body: &[u8]| parse(api, body, &Reading::default()).unwrap().max_output_tokens;
    for (api, expected) in [
        (Api::ChatCompletions, Some(2)),
        (Api::Completions, Some(1)),
        (Api::Messages, Some(1)),
        (Api::Responses, Some(3)),
        (Api::Embeddings, None),
    ] {
        assert_eq!(limit(api, body), expected, "{api:?}");
    }
    for (value, expected) in
        [("-1", Some(5)), ("1.5", Some(5)), ("null", Some(5)), ("\"7\"", Some(5)), ("0", Some(0))]
    {
        let body =
            format!(r#"{{"model":"m","messages":[{{}}],"max_completion_tokens":{value},"max_tokens":5}}"#);
        assert_eq!(limit(Api::ChatCompletions, body.as_bytes()), expected, "{value}");
    }
}

#[test]
fn an_input_of_embeddings_is_load_that_no_other_prompt_begins_like() {
    assert_eq!(text(Api::Embeddings, r#"{"model":"m","input":"ab"}"#), ["{\"Raw\":ab"]);
    assert_eq!(text(Api::Embeddings, r#"{"model":"m","input":["a","b"]}"#), ["{\"Raw\":[\"a\",\"b\"]"]);
    let tokens = parse(Api::Embeddings, br#"{"model":"m","input":[1,2,3]}"#, &Reading::default()).unwrap();
    assert_eq!(tokens.prompts[0].tokens(), 3);
}

#[test]
fn images_are_found_in_every_api_that_takes_them() {
    for (api, list, part, expected) in [
        (Api::Responses, "input", json!({"type": "input_image", "image_url": "u"}), true),
        (Api::Responses, "input", json!({"type": "input_text", "text": "image"}), false),
        (Api::Messages, "messages", json!({"type": "image", "source": {"type": "url", "url": "u"}}), true),
        (
            Api::Messages,
            "messages",
            json!({"type": "document", "source": {"type": "url", "url": "u"}}),
            false,
        ),
        (Api::Messages, "messages", json!({"type": "text", "text": "image"}), false),
    ] {
        let body = json!({"model": "m", list: [{"role": "user", "content": [part]}]}).to_string();
        let parsed = parse(api, body.as_bytes(), &Reading::default()).unwrap();
        assert_eq!(parsed.multimodal, expected, "{body}");
    }
}

#[test]
fn an_image_counts_as_many_tokens_and_differs_from_others() {
    let prompt = |api, part: &str| {
        let content = format!(r#"[{{"type":"text","text":"look"}},{part},{{"text":"!"}}]"#);
        let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":{content}}}]}}"#);
        let mut prompts = parse(api, body.as_bytes(), &Reading::default()).unwrap().prompts;
        prompts.remove(0).bytes
    };
    let media = |content: &str, tokens: usize| {
        let token = &xxh64(content.as_bytes(), 0).to_le_bytes()[..4];
        [b"userlook", token.repeat(tokens).as_slice(), b"!"].concat()
    };
    let gif = "R0lGODlhQAAgAAAAAA==";
    let url = format!("data:image/gif;base64,{gif}");
    let openai = |kind: &str, value: &str| format!(r#"{{"type":"{kind}","{kind}":{value}}}"#);
    for (part, content, tokens) in [
        (openai("image_url", r#"{"url":"http://a/1.png","detail":"low"}"#), "http://a/1.png", 225),
        (openai("image_url", r#""http://a/2.png""#), "http://a/2.png", 225),
        (openai("image_url", &format!(r#"{{"url":"{url}"}}"#)), &*url, 2),
        (openai("video_url", r#"{"url":"http://a/2.mp4"}"#), "http://a/2.mp4", 4500),
        (openai("audio_url", r#"{"url":"http://a/3.wav"}"#), "http://a/3.wav", 1),
        (openai("input_audio", r#"{"data":"AAAABBBBC","format":"mpeg"}"#), "AAAABBBBCmpeg", 4),
        (openai("input_audio", r#"{"data":"AAAABBBBC"}"#), "AAAABBBBC", 3),
    ] {
        assert_eq!(prompt(Api::ChatCompletions, &part), media(content, tokens), "{part}");
    }
    let source = format!(r#"{{"type":"image","source":{{"type":"base64","data":"{gif}"}}}}"#);
    assert_eq!(prompt(Api::Messages, &source), media(gif, 2));
    let result = format!(r#"{{"type":"tool_result","content":[{source},"done"]}}"#);
    assert_eq!(prompt(Api::Messages, &result), [b"userlookdone", &media(gif, 2)[8..]].concat());
    let image = openai("image_url", r#""http://a/2.png""#);
    for (api, nothing) in [
        (Api::ChatCompletions, openai("image_url", "7")),
        (Api::ChatCompletions, source.clone()),
        (Api::Messages, source.replace("image", "document")),
        (Api::Messages, format!(r#"{{"type":"tool_result","content":[{image}]}}"#)),
        (Api::Messages, image),
    ] {
        assert_eq!(prompt(api, &nothing), b"userlook!", "{nothing}");
    }
}

#[test]
fn media_are_cut_off_with_the_text() {
    let body = br#"{"model":"m","messages":[{"role":"user","content":["a",{"image_url":"u"},"b"]}]}"#;
    for limit in [0, 3, 6, 9, 100, 909, 1000] {
        let cut = parse(Api::ChatCompletions, body, &Reading { limit, ..Reading::default() }).unwrap();
        let whole = parse(Api::ChatCompletions, body, &Reading::default()).unwrap();
        let (cut, whole) = (&cut.prompts[0], &whole.prompts[0]);
        assert_eq!(cut.bytes, whole.bytes[..limit.min(909)]);
        assert_eq!((cut.bytes.len() + cut.cut, whole.bytes.len()), (909, 909));
    }
}

#[test]
fn a_completion_has_a_prompt_per_string_and_one_of_tokens() {
    let body = |prompt: &serde_json::Value| json!({"model": "m", "prompt": prompt}).to_string();
    assert_eq!(text(Api::Completions, &body(&json!("one"))), ["one"]);
    assert_eq!(text(Api::Completions, &body(&json!(["one", "two"]))), ["one", "two"]);
    let parsed = parse(Api::Completions, body(&json!([1, 256])).as_bytes(), &Reading::default()).unwrap();
    assert_eq!(parsed.prompts, [Prompt::from(vec![1, 0, 0, 0, 0, 1, 0, 0])]);
    let parsed =
        parse(Api::Completions, body(&json!([[1], [2, 3]])).as_bytes(), &Reading::default()).unwrap();
    assert_eq!(parsed.prompts.len(), 2);
    assert_eq!(parsed.prompts[1].tokens(), 2);
}

#[test]
fn other_apis_are_hashed_by_what_they_ask() {
    for (body, prompt) in [
        (r#"{"model":"m","instructions":"be","tools":[{}],"input":"h\u0069"}"#, "be[{}]hi"),
        (
            r#"{"model":"m","instructions":"be","input":[{"role":"user","content":"hi"},
                {"type":"function_call","arguments":"{}"},{"type":"function_call_output","output":"1"}]}"#,
            r#"be[{"role":"user","content":"hi"},
                {"type":"function_call","arguments":"{}"},{"type":"function_call_output","output":"1"}]"#,
        ),
    ] {
        assert_eq!(text(Api::Responses, body), [prompt]);
    }
    let conversation = r#"{"model":"m","items":[{"type":"message","content":[{"text":"hi"}]}]}"#;
    assert_eq!(text(Api::Conversations, conversation), [r#"[{"type":"message","content":[{"text":"hi"}]}]"#]);
    let system = json!([{"text": "x-anthropic-billing-header: 1"}, {"text": "be"}]);
    let messages = json!({"model": "m", "system": system, "messages": [{"role": "user", "content": "hi"}]});
    assert_eq!(text(Api::Messages, &messages.to_string()), ["beuserhi"]);
    let generate = json!({"model": "m", "token_ids": [7]});
    assert_eq!(
        parse(Api::Generate, generate.to_string().as_bytes(), &Reading::default()).unwrap().prompts[0]
            .tokens(),
        1
    );
}

#[test]
fn thinking_and_tools_are_part_of_a_message() {
    let result = |content: &str| {
        let part = format!(r#"{{"tool_use_id":"t1","content":{content},"type":"tool_result"}}"#);
        format!(r#"{{"model":"m","messages":[{{"role":"user","content":[{part},{{"text":"!"}}]}}]}}"#)
    };
    let nested = r#"[{"type":"tool_result","content":"deep"},{"type":"text","text":"a"},"b"]"#;
    for (content, prompt) in [("\"4\\n2\"", "user4\n2!"), (nested, "usera\nb!"), ("7", "user!")] {
        assert_eq!(text(Api::Messages, &result(content)), [prompt]);
    }
    let image = result(r#"[{"type":"image","source":{"type":"url","url":"u"}}]"#);
    assert!(parse(Api::Messages, image.as_bytes(), &Reading::default()).unwrap().multimodal);
    let call = r#"{"model":"m","messages":[{"role":"assistant","content":[
        {"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"d"},
        {"type":"tool_use","input":{"a": 1},"name":"add","id":"t1"}]}]}"#;
    assert_eq!(text(Api::Messages, call), [r#"assistanthmt1add{"a": 1}"#]);
    assert_eq!(text(Api::ChatCompletions, call), ["assistant"], "OpenAI has no such parts");
}

#[test]
fn errors_are_in_the_words_of_the_reference() {
    let error = |api, body: &str| parse(api, body.as_bytes(), &Reading::default()).unwrap_err().to_string();
    let eof = "error unmarshaling request bodyMap: unexpected end of JSON input";
    assert_eq!(error(Api::ChatCompletions, ""), eof);
    assert_eq!(error(Api::ChatCompletions, "  "), eof);
    assert_eq!(error(Api::ChatCompletions, "{\"model\":"), eof);
    assert_eq!(
        error(Api::Completions, "\"x\""),
        "error unmarshaling request bodyMap: json: cannot unmarshal string into Go value of type map[string]interface {}"
    );
    assert_eq!(
        error(Api::ChatCompletions, "null"),
        "invalid chat completions request: must have valid messages field"
    );
    let number = r#"{"model":5,"messages":[{"role":"user","content":"x"}]}"#;
    assert_eq!(parse(Api::ChatCompletions, number.as_bytes(), &Reading::default()), Err(BodyError::NoModel));
    assert!(error(Api::Completions, "{\"prompt\":\"a\"} trailing").contains("trailing"));
}

#[test]
fn fields_of_odd_types_count_as_absent() {
    let body = r#"{"model":"m","stream":"yes","cache_salt":[1,{"a":2}],"tools":7,"system":{},"stream":null,
        "messages":[{"role":3,"content":{"a":[1]}},4,null,"text",[1,-2,"x"],{"content":[1,"part",{"text":5}]}]}"#;
    let parsed = parse(Api::ChatCompletions, body.as_bytes(), &Reading::default()).unwrap();
    assert!(!parsed.stream && parsed.cache_salt.is_empty());
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for api in [
            Api::ChatCompletions, Api::Completions, Api::Responses, Api::Messages, Api::Generate, Api::SglangGenerate,
        ] {
            let _ = parse(api, &bytes, &Reading::default());
        }
    }

    #[test]
    fn no_cut_of_a_body_makes_the_parser_panic(cut in 0..170_usize, flip in 0..170_usize, byte in any::<u8>()) {
        let mut body = br#"{"model":"m\u00e9","messages":[{"role":"user","content":[{"type":"text","text":"h\"i\ud83d\ude00"}]}],"prompt":["a",[1,2]],"input":{"x":1e999},"stream":true,"tools":[{}]}"#.to_vec();
        let at = flip % body.len();
        body[at] = byte;
        body.truncate(cut.min(body.len()));
        let _ = parse(Api::ChatCompletions, &body, &Reading::default());
        let _ = parse(Api::Completions, &body, &Reading::default());
    }

    #[test]
    fn the_model_is_found_wherever_it_stands(before in ".{0,20}", model in "[a-z/\u{e9}\"\\\\]{1,12}", after in ".{0,20}") {
        let value = serde_json::Value::from(model.as_str()).to_string();
        let body = format!(
            "{{{}:1, \"model\" : {value} ,\"prompt\":{}}}",
            serde_json::Value::from(format!("x{before}")),
            serde_json::Value::from(after)
        );
        let parsed = parse(Api::Completions, body.as_bytes(), &Reading::default()).unwrap();
        prop_assert_eq!(&parsed.model, &model);
        prop_assert_eq!(&body[parsed.model_at], value);
    }
}

/// A field of bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

/// A message in its frame.
fn frame(message: &[u8]) -> Vec<u8> {
    [&[0][..], &u32::try_from(message.len()).unwrap().to_be_bytes(), message].concat()
}

#[test]
fn requests_over_grpc_are_read() {
    // input_ids packed and one by one, a placeholder, and fields of every wire type that nobody asks for.
    let tokens = field(2, &[&field(2, &[1, 0xac, 2])[..], &[0x10, 7]].concat());
    let message = [
        &field(1, b"id")[..],
        &tokens,
        &[0x28, 1, 0x4d, 0, 0, 0, 0, 0x51],
        &[0; 8],
        &field(7, &field(5, &[])),
    ]
    .concat();
    let parsed = parse(Api::VllmGenerate, &frame(&message), &Reading::default()).unwrap();
    let expected = ParsedBody {
        stream: true,
        exact: true,
        multimodal: true,
        prompts: vec![Prompt::from(vec![1, 0, 0, 0, 0x2c, 1, 0, 0, 7, 0, 0, 0])],
        ..ParsedBody::default()
    };
    assert_eq!(parsed, expected);
    let text = parse(Api::VllmGenerate, &frame(&field(3, b"hello")), &Reading::default()).unwrap();
    assert_eq!((text.exact, text.prompts), (false, vec![Prompt::from(b"hello".to_vec())]));
    assert_eq!(parse(Api::VllmEmbed, &frame(&tokens), &Reading::default()).unwrap(), ParsedBody::default());
    let json = br#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}"#;
    let chat = field(2, &[field(1, b"application/json"), field(2, json)].concat());
    let chat =
        parse(Api::VertexChat, &frame(&[field(1, b"endpoint"), chat].concat()), &Reading::default()).unwrap();
    assert_eq!(
        (chat.model.as_str(), chat.stream, chat.prompts[0].bytes.as_slice()),
        ("m", true, &b"userhi"[..])
    );
    let raw = field(2, &field(2, br#"{"input":"hi"}"#));
    assert_eq!(
        parse(Api::VertexRaw, &frame(&raw), &Reading::default()).unwrap().model,
        "",
        "the server has its own"
    );
}

#[test]
fn broken_requests_over_grpc_are_refused() {
    let refused = |api: Api, body: &[u8]| parse(api, body, &Reading::default()).unwrap_err().to_string();
    assert!(refused(Api::VllmGenerate, b"").contains("shorter"));
    assert!(refused(Api::VllmGenerate, &[0, 0, 0, 0, 9, 1]).contains("shorter"));
    assert!(refused(Api::VllmGenerate, &[1, 0, 0, 0, 0]).contains("compressed"));
    assert!(refused(Api::VllmGenerate, &frame(&[0x1a, 9, b'x'])).contains("middle of a field"));
    assert!(refused(Api::VllmGenerate, &frame(&[0x0b])).contains("wire type"));
    assert!(refused(Api::VllmGenerate, &frame(&[0xff; 11])).contains("middle of a field"));
    assert!(refused(Api::VllmGenerate, &frame(&field(3, &[0xff]))).contains("UTF-8"));
    assert_eq!(refused(Api::VllmGenerate, &frame(&field(1, b"id"))), "not supported request inputType");
    assert_eq!(refused(Api::VllmEmbed, &frame(&[])), "missing tokenized input in EmbedRequest");
    assert!(refused(Api::VertexChat, &frame(&field(1, b"e"))).contains("HttpBody"));
    assert!(refused(Api::VertexChat, &frame(&field(2, &field(2, b"{}")))).contains("messages"));
}

#[test]
fn paths_over_grpc_belong_to_their_parsers() {
    let of = |path: &str, parser: Parser| Api::of(path, &[parser]);
    let path = "/vllm.grpc.engine.VllmEngine/Generate";
    assert_eq!(of(path, Parser::VllmGrpc), Some(Api::VllmGenerate));
    assert_eq!(of(path, Parser::VllmHttp), None);
    let path = "/google.cloud.aiplatform.v1beta1.PredictionService/StreamRawPredict";
    assert_eq!(of(path, Parser::VertexAi), Some(Api::VertexRaw));
}

#[test]
fn lists_of_nothing_and_endless_names_take_no_memory() {
    let many = |element: &str, count: usize| vec![element; count].join(",");
    let refused = |api: Api, body: String| parse(api, body.as_bytes(), &Reading::default()).unwrap_err();
    for element in ["{}", "\"\"", "[]"] {
        let of = |count| format!("{{\"model\":\"m\",\"messages\":[{}]}}", many(element, count));
        assert!(parse(Api::ChatCompletions, of(MAX_ELEMENTS).as_bytes(), &Reading::default()).is_ok());
        assert_eq!(refused(Api::ChatCompletions, of(MAX_ELEMENTS + 1)), BodyError::Elements);
    }
    let prompts = format!("{{\"model\":\"m\",\"prompt\":[{}]}}", many("\"\"", MAX_ELEMENTS + 1));
    assert_eq!(refused(Api::Completions, prompts), BodyError::Elements);
    let parts = |part: &str| {
        let parts = many(part, MAX_ELEMENTS + 1);
        format!("{{\"model\":\"m\",\"messages\":[{{\"role\":\"user\",\"content\":[{parts}]}}]}}")
    };
    assert_eq!(refused(Api::ChatCompletions, parts("\"x\"")), BodyError::Elements);
    // Parts without text are not kept, so they need no limit.
    assert!(parse(Api::ChatCompletions, parts("0").as_bytes(), &Reading::default()).is_ok());
    let named = |length| format!("{{\"model\":\"{}\",\"prompt\":\"x\"}}", "m".repeat(length));
    assert!(parse(Api::Completions, named(MAX_MODEL).as_bytes(), &Reading::default()).is_ok());
    assert_eq!(refused(Api::Completions, named(MAX_MODEL + 1)), BodyError::LongModel(MAX_MODEL + 1));
}
