//! Which requests are refused, and in which words.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{Server, chat, weather, with};

#[tokio::test]
async fn mistakes_are_refused_as_vllm_refuses_them() {
    let server = Server::start(&["--max-model-len", "16"]).await;
    for (path, body, status) in [
        (
            "/v1/chat/completions",
            json!({"model": "other", "messages": [{"role": "user", "content": "x"}]}),
            404,
        ),
        ("/v1/chat/completions", json!({"model": "m", "messages": []}), 400),
        ("/v1/chat/completions", json!({"model": "m"}), 400),
        ("/v1/completions", json!({"prompt": "x", "max_tokens": 0}), 400),
        ("/v1/completions", json!({"prompt": "x ".repeat(40)}), 400),
        ("/v1/nothing", json!({}), 404),
        ("/health", json!({}), 405),
    ] {
        let (code, answer) = server.post(path, &body).await;
        assert_eq!(
            (code, answer["error"]["code"].as_u64()),
            (status, Some(u64::from(status))),
            "{path} {body} {answer}"
        );
        assert!(!answer["error"]["message"].as_str().unwrap().is_empty());
    }
}

#[tokio::test]
async fn with_api_keys_requests_need_one_as_in_vllm() {
    let server = Server::start(&["--api-key", "first", "second", "--max-model-len=64"]).await;
    let status = async |method: Method, path: &str, key: Option<&str>| {
        let request = server.client.request(method, server.url(path)).json(&chat("x"));
        let request = key.into_iter().fold(request, reqwest::RequestBuilder::bearer_auth);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let unauthorized = (401, r#"{"error":"Unauthorized"}"#.to_owned());
    for path in ["/v1/chat/completions", "/v1/nothing", "/v1x", "/inference/v1/generate"] {
        assert_eq!(status(Method::POST, path, None).await, unauthorized, "{path}");
        assert_eq!(status(Method::POST, path, Some("third")).await, unauthorized, "{path}");
    }
    for key in ["first", "second"] {
        assert_eq!(status(Method::GET, "/v1/models", Some(key)).await.0, 200);
        assert_eq!(status(Method::POST, "/v1/chat/completions", Some(key)).await.0, 200);
    }
    assert_eq!(status(Method::OPTIONS, "/v1/models", None).await.0, 405);
    for path in ["/health", "/metrics", "/version", "/ping"] {
        assert_eq!(status(Method::GET, path, None).await.0, 200, "{path}");
    }
    assert_eq!(status(Method::POST, "/tokenize", None).await.0, 200);
}

#[tokio::test]
async fn bad_parameters_are_named_in_the_words_of_vllm() {
    let server = Server::start(&["--max-model-len", "64"]).await;
    let part = |part: Value| json!({"messages": [{"role": "user", "content": [part]}]});
    let schema = |schema: Value| json!({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}});
    let call = json!({"type": "function", "function": {"name": "f", "arguments": "{}"}});
    let call = json!({"messages": [{"role": "assistant", "tool_calls": [call]}]});
    let image = json!([{"type": "image_url", "image_url": {"url": "data:x"}}]);
    for (fields, param, word) in [
        (json!({"temperature": -1}), "temperature", "must be non-negative, got -1"),
        (json!({"temperature": "hot"}), "body.temperature", "temperature: invalid type"),
        (json!({"top_p": 0}), "top_p", "must be in (0, 1], got 0"),
        (json!({"top_k": -2}), "", "at least 1, got -2"),
        (json!({"min_p": 2}), "", "must be in [0, 1]"),
        (json!({"n": 0}), "", "n must be at least 1, got 0."),
        (json!({"n": 2, "temperature": 0}), "", "n must be 1 when using greedy sampling, got 2."),
        (json!({"presence_penalty": 3}), "", "must be in [-2, 2]"),
        (json!({"frequency_penalty": -3}), "", "must be in [-2, 2]"),
        (json!({"repetition_penalty": 0}), "", "must be greater than zero"),
        (json!({"max_tokens": 0}), "max_tokens", "must be at least 1, got 0."),
        (json!({"max_tokens": 1000}), "max_tokens", "cannot be greater than max_model_len=64"),
        (json!({"min_tokens": 5, "max_tokens": 2}), "", "max_tokens=2, got 5"),
        (json!({"stop": [""]}), "", "empty string"),
        (json!({"stop": 3}), "body.stop", "expected a string or a list of strings"),
        (json!({"stop": [3]}), "body.stop", "expected a string or a list of strings"),
        (json!({"top_logprobs": 2}), "top_logprobs", "`logprobs` must be set to true"),
        (json!({"logprobs": true, "top_logprobs": 21}), "logprobs", "max allowed: 20"),
        (json!({"stream_options": {"include_usage": true}}), "stream_options", "`stream=True`"),
        (json!({"messages": []}), "", "empty conversation"),
        (json!({"messages": [{"role": "wizard", "content": "x"}]}), "messages[0].role", "wizard"),
        (json!({"messages": [{"role": "user"}]}), "body.messages.0.content", "required"),
        (json!({"messages": [{"role": "user", "content": image}]}), "", "m is not a multimodal model"),
        (
            part(json!({"type": "image_url", "image_url": {"url": "http://x/y"}, "text": "a"})),
            "",
            "not a multimodal model",
        ),
        (part(json!({"type": "bogus", "text": "a"})), "type", "part type: 'bogus'"),
        (part(json!({"type": "file", "file": {}, "text": "a"})), "type", "part type: 'file'"),
        (part(json!({"text": "a"})), "body.messages.0.content.0.type", "required"),
        (part(json!("a")), "body.messages.0.content.0.type", "required"),
        (part(json!({"type": "text"})), "body.messages.0.content.0.text", "string"),
        (call, "body.messages.0.tool_calls.0", "missing field `id`"),
        (json!({"stream_options": {"include_usage": false}}), "stream_options", "when `stream=True`"),
        (
            json!({"messages": [{"role": "user", "content": "x ".repeat(99)}]}),
            "input_tokens",
            "reduce the length",
        ),
        (json!({"tool_choice": "required"}), "tool_choice", "`tools` must be set"),
        (json!({"tools": [weather()], "tool_choice": "some"}), "tool_choice", "Invalid value"),
        (json!({"tools": [{"type": "web"}]}), "body.tools.0.type", "function"),
        (json!({"tools": [{"type": "function", "name": "f"}]}), "body.tools.0.function", "required"),
        (json!({"response_format": {"type": "json_schema"}}), "response_format", "schema"),
        (schema(json!("{}")), "body.response_format.json_schema.schema", "an object"),
        (schema(json!(true)), "body.response_format.json_schema.schema", "an object"),
        (json!({"structured_outputs": {"json": true}}), "body.structured_outputs.json", "JSON schema"),
        (json!({"structured_outputs": {"json": "true"}}), "structured_outputs.json", "not JSON of an object"),
        (json!({"response_format": {"type": "xml"}}), "body.response_format.type", "json_object"),
        (json!({"guided_choice": []}), "guided_choice", "list"),
        (json!({"guided_choice": ["a"], "guided_regex": "b"}), "structured_outputs", "only use one kind"),
        // Unsupported parameters are refused and not ignored.
        (json!({"guided_grammar": "root ::= x"}), "guided_grammar", "not supported"),
        (json!({"guided_json": {"not": {}}}), "structured_outputs", "`not` is not simulated"),
        (json!({"logit_bias": {"1": 5}}), "logit_bias", "not supported"),
        (json!({"best_of": 3}), "best_of", "not supported"),
        (json!({"bad_words": ["x"]}), "bad_words", "not supported"),
        (json!({"allowed_token_ids": [1]}), "allowed_token_ids", "not supported"),
        (json!({"allowed_token_ids": []}), "allowed_token_ids", "not None and empty"),
        (json!({"logit_bias": {"x": 1}}), "logit_bias", "Invalid key in 'logit_bias': x"),
        (json!({"bad_words": [""]}), "", "empty string"),
        (json!({"stop_token_ids": [1]}), "stop_token_ids", "not supported"),
        (json!({"prompt_logprobs": 1}), "prompt_logprobs", "not supported"),
        (json!({"truncate_prompt_tokens": 1}), "truncate_prompt_tokens", "not supported"),
        (json!({"echo": true}), "echo", "not supported"),
        (json!({"add_special_tokens": true}), "add_special_tokens", "not supported"),
        (json!({"documents": [{"text": "x"}]}), "documents", "not supported"),
        (json!({"chat_template": "{{ 1 }}"}), "", "untrusted chat template"),
        (json!({"mm_processor_kwargs": {}}), "mm_processor_kwargs", "not supported"),
        (json!({"cache_salt": "x"}), "cache_salt", "not supported"),
        (json!({"return_token_ids": true}), "return_token_ids", "not supported"),
        (json!({"return_tokens_as_token_ids": true}), "return_tokens_as_token_ids", "not supported"),
        (json!({"thinking_token_budget": 1}), "thinking_token_budget", "not supported"),
        (json!({"repetition_detection": {}}), "repetition_detection", "not supported"),
        (json!({"logits_processors": ["x"]}), "logits_processors", "not supported"),
        (json!({"vllm_xargs": {"x": 1}}), "vllm_xargs", "not supported"),
        (json!({"continue_final_message": true}), "", "Cannot set both"),
        (json!({"chat_template_kwargs": {"messages": []}}), "chat_template_kwargs.messages", "another field"),
        (
            json!({"structured_outputs": {"json": {}, "disable_any_whitespace": true}}),
            "structured_outputs.disable_any_whitespace",
            "not supported",
        ),
        (
            json!({"structured_outputs": {"json": {}, "whitespace_pattern": " "}}),
            "structured_outputs.whitespace_pattern",
            "not supported",
        ),
    ] {
        let (status, answer) = server.post("/v1/chat/completions", &with(&fields)).await;
        let error = &answer["error"];
        // vLLM's library for bodies has a type and a form of names of its own, and some checks name no field.
        let kind = if param.starts_with("body") { "Bad Request" } else { "BadRequestError" };
        assert_eq!((status, &error["type"]), (400, &json!(kind)), "{fields} {answer}");
        assert_eq!(error["param"].as_str().unwrap_or_default(), param, "{fields} {answer}");
        assert!(error["message"].as_str().unwrap().contains(word), "{fields} {answer}");
    }
}

#[tokio::test]
async fn a_body_is_an_object_and_no_list_of_its_fields() {
    let server = Server::start(&[]).await;
    let (chat, completions) = ("/v1/chat/completions", "/v1/completions");
    for (path, body, param) in [
        (chat, r#"["m", [["user", "hi"]]]"#, "body"),
        (completions, r#"["m", null, "The sea"]"#, "body"),
        ("/tokenize", r#"["hello"]"#, "body"),
        ("/v1/responses", r#"["m", "hi"]"#, "body"),
        (chat, r#"{"messages": [["user", "hi"]]}"#, "body.messages.0"),
        (completions, r#"{"prompt": "a", "stream": true, "stream_options": [true]}"#, "body.stream_options"),
        (completions, r#"{"prompt": "a", "kv_transfer_params": [true]}"#, "body.kv_transfer_params"),
        // What is not JSON is refused with its place, in characters.
        (chat, r#"{"model": "m", "messages": [{"role": "user""#, "body.43"),
        (chat, "{\"model\":\n\"ü\",, ", "body.14"),
        (chat, "hello", "body.0"),
        (chat, "", "body"),
    ] {
        let answer = server.client.post(server.url(path)).body(body).send().await.unwrap();
        let (status, answer) = (answer.status().as_u16(), answer.json::<Value>().await.unwrap());
        assert_eq!((status, &answer["error"]["param"]), (400, &json!(param)), "{path} {body} {answer}");
    }
}

#[tokio::test]
async fn an_answer_cannot_be_longer_than_it_may_be() {
    let server = Server::start(&["--max-model-len", "64"]).await;
    for (body, limit) in [
        (json!({"prompt": "a", "min_tokens": 17}), 16),
        (json!({"prompt": "a", "min_tokens": 64, "max_tokens": 64}), 63),
        (json!({"prompt": "a", "min_tokens": 3, "max_tokens": 2}), 2),
    ] {
        let (status, answer) = server.post("/v1/completions", &body).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(status, 400, "{body} {answer}");
        assert!(message.contains(&format!("less than or equal to max_tokens={limit}")), "{body} {answer}");
    }
    assert_eq!(server.post("/v1/chat/completions", &with(&json!({"min_tokens": 60}))).await.0, 400);
}

#[tokio::test]
async fn a_completion_has_as_many_prompts_as_evaluations_send() {
    let server = Server::start(&["--max-waiting-queue-length", "2000"]).await;
    for (prompts, copies, expected) in [(1024, 1, 200), (1025, 1, 400), (1024, 17, 400)] {
        let body = json!({"prompt": vec!["a"; prompts], "n": copies, "max_tokens": 1});
        let (status, answer) = server.post("/v1/completions", &body).await;
        assert_eq!(status, expected, "{prompts} {copies} {}", answer["error"]);
    }
    // They are counted before they become tokens, of which these have none.
    let (_, answer) = server.post("/v1/completions", &json!({"prompt": vec![""; 1025]})).await;
    assert_eq!(answer["error"]["param"], "prompt", "{answer}");
}

#[tokio::test]
async fn fields_without_an_effect_are_accepted() {
    let server = Server::start(&[]).await;
    let neutral = json!({
        "best_of": 1, "use_beam_search": false, "logit_bias": {}, "prompt_logprobs": null, "bad_words": [],
        "allowed_token_ids": null, "echo": false, "add_special_tokens": false, "documents": [], "chat_template": null,
        "priority": 1, "cache_salt": null, "return_token_ids": false, "logits_processors": [], "vllm_xargs": {},
        "add_generation_prompt": true, "continue_final_message": false, "chat_template_kwargs": {"enable_thinking": false},
        "reasoning_effort": "low", "skip_special_tokens": true, "parallel_tool_calls": true, "user": "u",
        "request_id": "mine", "tool_choice": null, "structured_outputs": null, "guided_json": null, "prompt_embeds": null,
    });
    let (status, answer) = server.post("/v1/chat/completions", &with(&neutral)).await;
    assert_eq!((status, &answer["id"]), (200, &json!("chatcmpl-mine")), "{answer}");
}

#[tokio::test]
async fn requests_are_refused_at_the_configured_rate() {
    for (kind, expected) in [("rate_limit", 429), ("server_error", 503), ("invalid_api_key", 401)] {
        let server = Server::start(&["--failure-injection-rate", "100", "--failure-types", kind]).await;
        assert_eq!(server.post("/v1/chat/completions", &chat("hi")).await.0, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_request_is_closed() {
    let server = Server::start(&[]).await;
    for sent in ["", "PRI * HTTP/2.0\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut read = Vec::new();
        let closed = tokio::time::timeout(Duration::from_hours(1), stream.read_to_end(&mut read)).await;
        assert!(closed.is_ok(), "{sent:?}");
    }
}
