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
    assert_eq!(texts, ["a ba", "a ba", "c da", "c da"]);
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
        ("/v1/completions", json!({"prompt": "x", "n": 0}), 400),
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
