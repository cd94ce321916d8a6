//! The simulator over real sockets.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

use std::{net::SocketAddr, time::Duration};

use futures::StreamExt;
use longboat_sim::{Args, serve};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

struct Server {
    address: SocketAddr,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
    client: reqwest::Client,
}

impl Server {
    async fn start(arguments: &[&str]) -> Self {
        longboat_tls::install_default_provider();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut all = vec!["/mnt/models", "--served-model-name", "m", "alias"];
        all.extend(arguments);
        let args = Args::simulator(&all).unwrap();
        let shutdown = CancellationToken::new();
        let token = shutdown.clone();
        let task = tokio::spawn(async move { serve(args, listener, token).await.unwrap() });
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { address, shutdown, task, client }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let response = self.client.post(self.url(path)).json(body).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    async fn events(&self, path: &str, body: &Value) -> Vec<Value> {
        let text = self.client.post(self.url(path)).json(body).send().await.unwrap().text().await.unwrap();
        let mut lines: Vec<_> = text.split("\n\n").filter(|line| !line.is_empty()).collect();
        assert_eq!(lines.pop(), Some("data: [DONE]"));
        lines.iter().map(|line| serde_json::from_str(line.strip_prefix("data: ").unwrap()).unwrap()).collect()
    }

    async fn metric(&self, name: &str) -> f64 {
        let page = self.client.get(self.url("/metrics")).send().await.unwrap().text().await.unwrap();
        let line = page
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("no {name} in\n{page}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

fn chat(content: &str) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": content}], "seed": 1})
}

#[tokio::test]
async fn streamed_and_whole_answers_say_the_same_and_count_the_same() {
    let server = Server::start(&[]).await;
    let (status, whole) = server.post("/v1/chat/completions", &chat("Why is the sea salty?")).await;
    assert_eq!(status, 200, "{whole}");
    let text = whole["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(!text.is_empty());

    let mut request = chat("Why is the sea salty?");
    request["stream"] = json!(true);
    request["stream_options"] = json!({"include_usage": true});
    let chunks = server.events("/v1/chat/completions", &request).await;
    let streamed: String =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(streamed, text);
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let (last, body) = chunks.split_last().unwrap();
    assert_eq!(last["usage"]["completion_tokens"], whole["usage"]["completion_tokens"]);
    assert_eq!(last["usage"]["prompt_tokens"], whole["usage"]["prompt_tokens"]);
    assert_eq!(last["choices"], json!([]));
    assert!(body.iter().all(|chunk| chunk["usage"].is_null()));
    assert_eq!(body.last().unwrap()["choices"][0]["finish_reason"], "stop");
}

#[tokio::test]
async fn completions_take_lists_stops_limits_and_echo() {
    let server = Server::start(&["--mode", "echo"]).await;
    let (_, answer) = server
        .post(
            "/v1/completions",
            &json!({"model": "alias", "prompt": "one two three four", "stop": [" three"]}),
        )
        .await;
    assert_eq!(answer["choices"][0]["text"], "one two");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    let (_, answer) =
        server.post("/v1/completions", &json!({"prompt": "one two three", "max_tokens": 1})).await;
    assert_eq!(
        (&answer["choices"][0]["text"], &answer["choices"][0]["finish_reason"]),
        (&json!("one"), &json!("length"))
    );
    let (_, answer) = server
        .post("/v1/completions", &json!({"prompt": ["a b", "c d"], "n": 2, "echo": true, "max_tokens": 1}))
        .await;
    let texts: Vec<_> =
        answer["choices"].as_array().unwrap().iter().map(|c| c["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["a ba", "a ba", "c dc", "c dc"]);
    assert_eq!(answer["usage"]["completion_tokens"], 4);
}

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
async fn a_client_that_leaves_stops_the_work() {
    let server = Server::start(&["--inter-token-latency", "20ms"]).await;
    let mut request = chat("x");
    request["stream"] = json!(true);
    request["ignore_eos"] = json!(true);
    request["max_tokens"] = json!(500);
    let response =
        server.client.post(server.url("/v1/chat/completions")).json(&request).send().await.unwrap();
    let mut body = response.bytes_stream();
    body.next().await.unwrap().unwrap();
    assert!((server.metric("vllm:num_requests_running").await - 1.0).abs() < f64::EPSILON);
    drop(body);
    for _ in 0..100 {
        if server.metric("vllm:num_requests_running").await.abs() < f64::EPSILON {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the abandoned request is still running");
}

#[tokio::test]
async fn tokens_leave_one_by_one_and_a_stop_lets_answers_finish() {
    let server = Server::start(&["--inter-token-latency", "30ms"]).await;
    let mut request = chat("x");
    request["stream"] = json!(true);
    request["ignore_eos"] = json!(true);
    request["max_tokens"] = json!(10);
    let response =
        server.client.post(server.url("/v1/chat/completions")).json(&request).send().await.unwrap();
    let mut chunks = response.bytes_stream();
    let first = chunks.next().await.unwrap().unwrap();
    assert!(!String::from_utf8_lossy(&first).contains("[DONE]"), "the first chunk holds the whole answer");
    server.shutdown.cancel();
    let mut rest = Vec::new();
    while let Some(chunk) = chunks.next().await {
        rest.extend(chunk.unwrap());
    }
    assert!(String::from_utf8_lossy(&rest).ends_with("data: [DONE]\n\n"));
    server.task.await.unwrap();
}

#[tokio::test]
async fn models_tokenize_and_prefix_hits_are_reported() {
    let server = Server::start(&["--lora-modules", "tuned=/path"]).await;
    let models: Value =
        server.client.get(server.url("/v1/models")).send().await.unwrap().json().await.unwrap();
    let ids: Vec<_> =
        models["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["m", "alias", "tuned"]);
    let (_, tokens) = server.post("/tokenize", &json!({"prompt": "a b c"})).await;
    assert_eq!(tokens["count"], 3);
    let prompt = "word ".repeat(100);
    server.post("/v1/completions", &json!({"prompt": prompt})).await;
    let (_, second) = server.post("/v1/completions", &json!({"prompt": prompt})).await;
    assert_eq!(second["usage"]["prompt_tokens_details"]["cached_tokens"], 96);
    assert!((server.metric("vllm:prefix_cache_hits_total").await - 96.0).abs() < f64::EPSILON);
}

/// A chat request with additional fields.
fn with(more: &Value) -> Value {
    let mut request = chat("What is the weather in Oslo?");
    for (key, value) in more.as_object().unwrap() {
        request[key] = value.clone();
    }
    request
}

fn weather() -> Value {
    json!({"type": "function", "function": {"name": "weather", "parameters": {
        "type": "object", "required": ["city", "unit"], "additionalProperties": false, "properties": {
            "city": {"type": "string"}, "unit": {"enum": ["c", "f"]}, "days": {"type": "integer", "minimum": 1}}}}})
}

fn is_weather(arguments: &str) -> bool {
    let arguments: Value = serde_json::from_str(arguments).unwrap();
    arguments["city"].is_string() && ["c", "f"].iter().any(|unit| arguments["unit"] == *unit)
}

#[tokio::test]
async fn tools_are_called_as_tool_choice_says_streamed_and_not() {
    let server = Server::start(&[]).await;
    let named = json!({"type": "function", "function": {"name": "weather"}});
    for (choice, reason) in
        [(json!("required"), "tool_calls"), (json!("auto"), "tool_calls"), (named, "stop")]
    {
        let mut request = with(&json!({"tools": [weather()], "tool_choice": choice}));
        let (status, answer) = server.post("/v1/chat/completions", &request).await;
        assert_eq!(status, 200, "{answer}");
        let call = &answer["choices"][0]["message"]["tool_calls"][0];
        assert_eq!((&call["type"], &call["function"]["name"]), (&json!("function"), &json!("weather")));
        assert!(is_weather(call["function"]["arguments"].as_str().unwrap()), "{call}");
        assert_eq!(answer["choices"][0]["finish_reason"], reason);

        request["stream"] = json!(true);
        let chunks = server.events("/v1/chat/completions", &request).await;
        let calls = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].get(0));
        let (mut name, mut id, mut arguments) = (String::new(), 0, String::new());
        for call in calls {
            name += call["function"]["name"].as_str().unwrap_or_default();
            id += usize::from(call["id"].is_string());
            arguments += call["function"]["arguments"].as_str().unwrap_or_default();
            assert_eq!(call["index"], 0);
        }
        assert_eq!((name.as_str(), id), ("weather", 1));
        assert_eq!(Some(arguments.as_str()), call["function"]["arguments"].as_str());
        assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], reason);
    }
    let (_, answer) = server
        .post("/v1/chat/completions", &with(&json!({"tools": [weather()], "tool_choice": "none"})))
        .await;
    assert!(answer["choices"][0]["message"]["content"].is_string(), "{answer}");
}

#[tokio::test]
async fn after_the_result_of_a_tool_the_answer_is_words() {
    let server = Server::start(&[]).await;
    let call = json!({"id": "x", "type": "function", "function": {"name": "weather", "arguments": "{}"}});
    let request = with(&json!({"tools": [weather()], "messages": [
        {"role": "user", "content": "How is it?"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "x", "content": "sunny"}]}));
    let (_, answer) = server.post("/v1/chat/completions", &request).await;
    assert_eq!(answer["choices"][0]["finish_reason"], "stop", "{answer}");
    assert!(!answer["choices"][0]["message"]["content"].as_str().unwrap().is_empty());
}

#[tokio::test]
async fn answers_have_the_form_that_is_asked_for() {
    let server = Server::start(&[]).await;
    let schema = weather()["function"]["parameters"].clone();
    let content = async |more: Value| {
        let (status, answer) = server.post("/v1/chat/completions", &with(&more)).await;
        assert_eq!(status, 200, "{answer}");
        answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
    };
    let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
    assert!(is_weather(&content(json!({"response_format": format})).await));
    assert!(is_weather(&content(json!({"guided_json": schema})).await));
    assert!(is_weather(&content(json!({"structured_outputs": {"json": schema.to_string()}})).await));
    let object = content(json!({"response_format": {"type": "json_object"}})).await;
    assert!(serde_json::from_str::<Value>(&object).unwrap().is_object());
    for more in
        [json!({"guided_choice": ["yes", "no"]}), json!({"structured_outputs": {"choice": ["yes", "no"]}})]
    {
        assert!(["yes", "no"].contains(&content(more).await.as_str()));
    }
    let number = content(json!({"structured_outputs": {"regex": "[0-9]{4}"}})).await;
    assert!(number.len() == 4 && number.parse::<u32>().is_ok(), "{number}");
}

#[tokio::test]
async fn tokens_come_with_probabilities_where_they_are_asked_for() {
    let server = Server::start(&[]).await;
    let request = with(&json!({"logprobs": true, "top_logprobs": 3, "max_tokens": 4}));
    let (_, answer) = server.post("/v1/chat/completions", &request).await;
    let choice = &answer["choices"][0];
    let tokens = choice["logprobs"]["content"].as_array().unwrap();
    let text: String = tokens.iter().map(|token| token["token"].as_str().unwrap()).collect();
    assert_eq!((tokens.len(), choice["message"]["content"].as_str()), (4, Some(text.as_str())));
    for token in tokens {
        let top = token["top_logprobs"].as_array().unwrap();
        let sum: f64 = top.iter().map(|entry| entry["logprob"].as_f64().unwrap().exp()).sum();
        assert!(top.len() == 3 && sum <= 1.0 && top[0]["token"] == token["token"], "{token}");
    }
    let body = json!({"prompt": "Once", "logprobs": 2, "max_tokens": 3});
    let (_, answer) = server.post("/v1/completions", &body).await;
    let logprobs = &answer["choices"][0]["logprobs"];
    let columns = ["tokens", "token_logprobs", "top_logprobs", "text_offset"];
    assert!(columns.iter().all(|column| logprobs[column].as_array().unwrap().len() == 3), "{logprobs}");
    assert_eq!(logprobs["text_offset"][1], logprobs["tokens"][0].as_str().unwrap().len());
}

#[tokio::test]
async fn bad_parameters_are_named_in_the_words_of_vllm() {
    let server = Server::start(&["--max-model-len", "64"]).await;
    let image = json!([{"type": "image_url", "image_url": {"url": "data:x"}}]);
    for (more, param, word) in [
        (json!({"temperature": -1}), "temperature", "must be non-negative, got -1"),
        (json!({"temperature": "hot"}), "temperature", "temperature: invalid type"),
        (json!({"top_p": 0}), "top_p", "must be in (0, 1], got 0"),
        (json!({"top_k": -2}), "top_k", "at least 1, got -2"),
        (json!({"min_p": 2}), "min_p", "must be in [0, 1]"),
        (json!({"n": 0}), "n", "n must be at least 1, got 0."),
        (json!({"n": 2, "temperature": 0}), "n", "n must be 1 when using greedy sampling, got 2."),
        (json!({"presence_penalty": 3}), "presence_penalty", "must be in [-2, 2]"),
        (json!({"frequency_penalty": -3}), "frequency_penalty", "must be in [-2, 2]"),
        (json!({"repetition_penalty": 0}), "repetition_penalty", "must be greater than zero"),
        (json!({"max_tokens": 0}), "max_tokens", "must be at least 1, got 0."),
        (json!({"max_tokens": 1000}), "max_tokens", "maximum context length is 64 tokens"),
        (json!({"min_tokens": 5, "max_tokens": 2}), "min_tokens", "max_tokens=2, got 5"),
        (json!({"stop": [""]}), "stop", "empty string"),
        (json!({"stop": 3}), "stop", "expected a string or a list of strings"),
        (json!({"stop": [3]}), "stop", "expected a string or a list of strings"),
        (json!({"top_logprobs": 2}), "top_logprobs", "`logprobs` must be set to true"),
        (json!({"logprobs": true, "top_logprobs": 21}), "top_logprobs", "max allowed: 20"),
        (json!({"stream_options": {"include_usage": true}}), "stream_options", "`stream=True`"),
        (json!({"messages": []}), "messages", "must not be empty"),
        (json!({"messages": [{"role": "wizard", "content": "x"}]}), "messages[0].role", "wizard"),
        (json!({"messages": [{"role": "user"}]}), "messages[0].content", "required"),
        (
            json!({"messages": [{"role": "user", "content": image}]}),
            "messages[0].content[0]",
            "not a multimodal model",
        ),
        (
            json!({"messages": [{"role": "user", "content": "x ".repeat(99)}]}),
            "input_tokens",
            "reduce the length",
        ),
        (json!({"tool_choice": "required"}), "tools", "`tools` must be set"),
        (json!({"tools": [weather()], "tool_choice": "some"}), "tool_choice", "Invalid value"),
        (json!({"tools": [{"type": "web"}]}), "tools[0]", "function"),
        (json!({"response_format": {"type": "json_schema"}}), "response_format", "schema"),
        (json!({"response_format": {"type": "xml"}}), "response_format", "json_object"),
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
        (json!({"bad_words": [""]}), "bad_words", "empty string"),
        (json!({"stop_token_ids": [1]}), "stop_token_ids", "not supported"),
        (json!({"prompt_logprobs": 1}), "prompt_logprobs", "not supported"),
        (json!({"truncate_prompt_tokens": 1}), "truncate_prompt_tokens", "not supported"),
        (json!({"echo": true}), "echo", "not supported"),
        (json!({"add_special_tokens": true}), "add_special_tokens", "not supported"),
        (json!({"documents": [{"text": "x"}]}), "documents", "not supported"),
        (json!({"chat_template": "{{ 1 }}"}), "chat_template", "untrusted chat template"),
        (json!({"mm_processor_kwargs": {}}), "mm_processor_kwargs", "not supported"),
        (json!({"priority": 1}), "priority", "Got priority 1 but Priority scheduling is not enabled."),
        (json!({"cache_salt": "x"}), "cache_salt", "not supported"),
        (json!({"return_token_ids": true}), "return_token_ids", "not supported"),
        (json!({"return_tokens_as_token_ids": true}), "return_tokens_as_token_ids", "not supported"),
        (json!({"thinking_token_budget": 1}), "thinking_token_budget", "not supported"),
        (json!({"repetition_detection": {}}), "repetition_detection", "not supported"),
        (json!({"logits_processors": ["x"]}), "logits_processors", "not supported"),
        (json!({"vllm_xargs": {"x": 1}}), "vllm_xargs", "not supported"),
        (json!({"continue_final_message": true}), "continue_final_message", "Cannot set both"),
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
        let (status, answer) = server.post("/v1/chat/completions", &with(&more)).await;
        let error = &answer["error"];
        assert_eq!((status, &error["type"]), (400, &json!("BadRequestError")), "{more} {answer}");
        assert_eq!(error["param"], param, "{more} {answer}");
        assert!(error["message"].as_str().unwrap().contains(word), "{more} {answer}");
    }
}

#[tokio::test]
async fn fields_that_say_nothing_new_are_taken() {
    let server = Server::start(&[]).await;
    let neutral = json!({
        "best_of": 1, "use_beam_search": false, "logit_bias": {}, "prompt_logprobs": null, "bad_words": [],
        "allowed_token_ids": null, "echo": false, "add_special_tokens": false, "documents": [], "chat_template": null,
        "priority": 0, "cache_salt": null, "return_token_ids": false, "logits_processors": [], "vllm_xargs": {},
        "add_generation_prompt": true, "continue_final_message": false, "chat_template_kwargs": {"enable_thinking": false},
        "reasoning_effort": "low", "skip_special_tokens": true, "parallel_tool_calls": true, "user": "u",
        "request_id": "mine",
    });
    let (status, answer) = server.post("/v1/chat/completions", &with(&neutral)).await;
    assert_eq!((status, &answer["id"]), (200, &json!("chatcmpl-mine")), "{answer}");
}

#[tokio::test]
async fn a_conversation_ends_where_the_request_says() {
    let server = Server::start(&[]).await;
    let tokens = async |more: Value| {
        let mut body = json!({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "I say "}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (status, answer) = server.post("/tokenize", &body).await;
        assert_eq!(status, 200, "{answer}");
        answer["tokens"].clone()
    };
    let text =
        async |text: &str| server.post("/tokenize", &json!({"prompt": text})).await.1["tokens"].clone();
    let said = "<|user|>\nHi\n<|assistant|>\nI say ";
    assert_eq!(tokens(json!({})).await, text(&format!("{said}\n<|assistant|>\n")).await);
    assert_eq!(tokens(json!({"add_generation_prompt": false})).await, text(&format!("{said}\n")).await);
    let continued = json!({"add_generation_prompt": false, "continue_final_message": true});
    assert_eq!(tokens(continued).await, text(said).await);
    for (more, words) in [
        (json!({"prompt": "x", "add_special_tokens": false}), "add_special_tokens"),
        (json!({"prompt": "x", "return_token_strs": true}), "return_token_strs"),
    ] {
        let (status, answer) = server.post("/tokenize", &more).await;
        assert_eq!((status, &answer["error"]["param"]), (400, &json!(words)), "{answer}");
    }
}

#[tokio::test]
async fn responses_take_what_vllm_has_beside_openai() {
    let server = Server::start(&[]).await;
    let body = json!({"input": "Hello", "structured_outputs": {"choice": ["yes"]}, "seed": 1, "top_k": 2});
    let (status, answer) = server.post("/v1/responses", &body).await;
    assert_eq!((status, &answer["output"][0]["content"][0]["text"]), (200, &json!("yes")), "{answer}");
    let body = json!({"input": "Hello", "stop": ["e"], "text": {"format": {"type": "json_object"}},
        "structured_outputs": {"choice": ["yes"]}});
    let (status, answer) = server.post("/v1/responses", &body).await;
    assert!(
        status == 400 && answer["error"]["message"].as_str().unwrap().contains("only use one kind"),
        "{answer}"
    );
    for (name, value) in
        [("cache_salt", json!("x")), ("max_tool_calls", json!(1)), ("logit_bias", json!({"1": 1}))]
    {
        let (status, answer) = server.post("/v1/responses", &json!({"input": "Hello", name: value})).await;
        assert_eq!((status, &answer["error"]["param"]), (400, &json!(name)), "{answer}");
    }
}

#[tokio::test]
async fn a_model_for_embeddings_makes_vectors_and_no_answers() {
    for flags in [["--runner", "pooling"], ["--convert", "embed"], ["--task", "embed"]] {
        let server = Server::start(&[&flags[..], &["--default-embedding-dimensions", "8"]].concat()).await;
        let body = json!({"model": "m", "input": ["The sea", "The sea", "A tree"]});
        let (status, answer) = server.post("/v1/embeddings", &body).await;
        assert_eq!(status, 200, "{answer}");
        let vectors: Vec<Vec<f64>> = (0..3)
            .map(|index| serde_json::from_value(answer["data"][index]["embedding"].clone()).unwrap())
            .collect();
        assert_eq!((vectors[0].len(), &vectors[0]), (8, &vectors[1]));
        assert_ne!(vectors[0], vectors[2]);
        assert!(answer["usage"]["prompt_tokens"].as_u64().unwrap() >= 6, "{answer}");
        assert!((server.metric("vllm:request_success_total").await - 3.0).abs() < 0.1);
        for path in ["/v1/chat/completions", "/v1/completions", "/v1/responses"] {
            assert_eq!(server.post(path, &chat("Hi")).await.0, 404, "{path}");
        }
        let (status, answer) = server.post("/v1/embeddings", &json!({"input": "a", "dimensions": 4})).await;
        assert!(status == 400 && answer["error"]["param"] == "dimensions", "{answer}");
    }
    let server = Server::start(&[]).await;
    let (status, answer) = server.post("/v1/embeddings", &json!({"input": "a"})).await;
    assert_eq!((status, &answer["error"]["message"]), (404, &json!("Not Found")));
    assert!(Args::simulator(&["m", "--task", "score"]).is_err());
}

#[tokio::test]
async fn without_temperature_the_same_question_gets_the_same_answer() {
    let server = Server::start(&[]).await;
    let mut request = with(&json!({"temperature": 0}));
    request.as_object_mut().unwrap().remove("seed");
    let answer =
        async || server.post("/v1/chat/completions", &request).await.1["choices"][0]["message"].clone();
    assert_eq!(answer().await, answer().await);
}

#[tokio::test]
async fn responses_are_made_whole_and_in_events() {
    let server = Server::start(&[]).await;
    let (status, whole) = server.post("/v1/responses", &json!({"input": "Hello", "temperature": 0})).await;
    assert_eq!((status, &whole["status"]), (200, &json!("completed")), "{whole}");
    let text = whole["output"][0]["content"][0]["text"].as_str().unwrap();
    assert!(!text.is_empty());
    assert_eq!(
        whole["usage"]["total_tokens"].as_u64(),
        Some(
            whole["usage"]["input_tokens"].as_u64().unwrap()
                + whole["usage"]["output_tokens"].as_u64().unwrap()
        )
    );

    let body = json!({"input": "Hello", "temperature": 0, "stream": true});
    let sent = server.client.post(server.url("/v1/responses")).json(&body).send().await.unwrap();
    let events: Vec<Value> = sent
        .text()
        .await
        .unwrap()
        .split("\n\n")
        .filter(|frame| !frame.is_empty())
        .map(|frame| {
            let (name, data) = frame.split_once('\n').unwrap();
            let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!(Some(name.strip_prefix("event: ").unwrap()), data["type"].as_str());
            data
        })
        .collect();
    let numbers: Vec<_> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    let deltas = events.iter().filter(|event| event["type"] == "response.output_text.delta");
    let streamed: String = deltas.map(|event| event["delta"].as_str().unwrap()).collect();
    assert_eq!(streamed, text);
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.completed");
    assert_eq!(last["response"]["output"][0]["content"][0]["text"], text);

    let tool =
        json!({"type": "function", "name": "weather", "parameters": weather()["function"]["parameters"]});
    let body = json!({"input": "Hello", "tools": [tool], "tool_choice": "required"});
    let (_, called) = server.post("/v1/responses", &body).await;
    assert_eq!(called["output"][0]["type"], "function_call", "{called}");
    assert!(is_weather(called["output"][0]["arguments"].as_str().unwrap()));
    let cut = server.post("/v1/responses", &json!({"input": "Hello", "max_output_tokens": 2})).await.1;
    assert_eq!(cut["incomplete_details"]["reason"], "max_output_tokens", "{cut}");
    for (body, status) in [
        (json!({"input": "x", "previous_response_id": "resp_1"}), 404),
        (json!({"input": []}), 400),
        (json!({"input": [{"type": "computer_call"}]}), 400),
        (json!({"input": "x", "background": true}), 400),
    ] {
        assert_eq!(server.post("/v1/responses", &body).await.0, status, "{body}");
    }
}

#[tokio::test]
async fn a_prompt_that_is_not_cached_enough_is_answered_with_nothing_and_is_not_cached_by_that() {
    let server = Server::start(&[]).await;
    let mut request = chat(&"Why is the sea salty? ".repeat(20));
    request["cache_hit_threshold"] = json!(0.5);
    for _ in 0..2 {
        let (status, answer) = server.post("/v1/chat/completions", &request).await;
        assert_eq!((status, &answer["choices"][0]["finish_reason"]), (200, &json!("cache_threshold")));
        assert_eq!(answer["usage"]["completion_tokens"], 0);
    }
    request["cache_hit_threshold"] = json!(0);
    let (_, answer) = server.post("/v1/chat/completions", &request).await;
    assert_ne!(answer["choices"][0]["finish_reason"], "cache_threshold");
    request["cache_hit_threshold"] = json!(0.5);
    request["stream"] = json!(true);
    let chunks = server.events("/v1/chat/completions", &request).await;
    let reasons: Vec<_> = chunks.iter().filter_map(|c| c["choices"][0]["finish_reason"].as_str()).collect();
    assert_eq!(reasons.len(), 1);
    assert_ne!(reasons, ["cache_threshold"], "the prompt is cached now");
}

#[tokio::test]
async fn the_bootstrap_endpoint_names_the_engine_and_another_start_is_another_engine() {
    let mut names = Vec::new();
    for _ in 0..2 {
        let server = Server::start(&[]).await;
        let list: Value = server.client.get(server.url("/query")).send().await.unwrap().json().await.unwrap();
        names.push(list["0"]["engine_id"].as_str().unwrap().to_owned());
    }
    assert_ne!(names[0], names[1]);
}

#[tokio::test]
async fn requests_are_refused_as_often_as_is_asked_for() {
    for (kind, expected) in [("rate_limit", 429), ("server_error", 503), ("invalid_api_key", 401)] {
        let server = Server::start(&["--failure-injection-rate", "100", "--failure-types", kind]).await;
        assert_eq!(server.post("/v1/chat/completions", &chat("hi")).await.0, expected);
    }
}

/// A question about this picture.
fn snapshot(content: &str) -> Value {
    json!({"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{content}")}},
    ]}]})
}

#[tokio::test]
async fn only_a_multimodal_model_takes_images_and_their_tokens_count() {
    let path = "/v1/chat/completions";
    let plain = Server::start(&[]).await;
    let (status, refused) = plain.post(path, &snapshot("AAAA")).await;
    assert_eq!(status, 400);
    assert!(refused.to_string().contains("is not a multimodal model"), "{refused}");

    let limit = r#"{"image": 1}"#;
    let flags = ["--modalities", "image", "--tokens-per-item", "100", "--limit-mm-per-prompt", limit];
    let server = Server::start(&flags).await;
    let (status, answer) = server.post(path, &snapshot("AAAA")).await;
    assert_eq!(status, 200, "{answer}");
    let tokens = |answer: &Value| answer["usage"]["prompt_tokens"].as_u64().unwrap();
    let cached = |answer: &Value| answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    assert!(tokens(&answer) > 100, "{answer}");
    let (_, other) = server.post(path, &snapshot("BBBB")).await;
    assert!(cached(&other) < 100, "another picture is another prompt: {other}");
    let (_, again) = server.post(path, &snapshot("AAAA")).await;
    assert!(cached(&again) > 90, "the same picture is the same prompt: {again}");
    assert!((server.metric("sim:items_encoded_total").await - 2.0).abs() < f64::EPSILON);
    assert!((server.metric("vllm:mm_cache_hits_total").await - 1.0).abs() < f64::EPSILON);

    let mut two = snapshot("AAAA");
    let parts = two["messages"][0]["content"].as_array_mut().unwrap();
    parts.push(parts[1].clone());
    let (status, refused) = server.post(path, &two).await;
    assert_eq!(status, 400);
    assert!(refused.to_string().contains("At most 1 image(s) may be provided in one prompt."), "{refused}");
}

#[tokio::test]
async fn an_encoder_says_where_embeddings_are_and_a_lost_one_is_computed_again() {
    let path = "/v1/chat/completions";
    let encoder =
        Server::start(&["--modalities", "image", "--ec-transfer-config", r#"{"ec_role": "ec_producer"}"#])
            .await;
    let (_, told) = encoder.post(path, &snapshot("AAAA")).await;
    assert_eq!(told["usage"]["completion_tokens"], 1, "{told}");
    let params = &told["ec_transfer_params"];
    assert_eq!(params.as_object().unwrap().len(), 1, "{told}");
    let mut request = snapshot("AAAA");
    request["ec_transfer_params"] = params.clone();
    for (lost, received) in [("0", 1.0), ("100", 0.0)] {
        let consumer = r#"{"ec_role": "ec_consumer"}"#;
        let flags =
            ["--modalities", "image", "--ec-transfer-config", consumer, "--ec-transfer-loss-rate", lost];
        let server = Server::start(&flags).await;
        let answer = server.client.post(server.url(path)).json(&request).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200);
        assert_eq!(answer.headers().contains_key("x-simulated-ec-source"), received > 0.0);
        assert!((server.metric("sim:items_received_total").await - received).abs() < f64::EPSILON, "{lost}");
        assert!((server.metric("sim:items_encoded_total").await - (1.0 - received)).abs() < f64::EPSILON);
    }
    assert!(Args::simulator(&["m", "--ec-transfer-config", r#"{"ec_role": "x"}"#]).is_err());
    assert!(Args::simulator(&["m", "--modalities", "smell"]).is_err());
}
