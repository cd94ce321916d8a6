//! API keys, in front of a simulator.

use reqwest::header;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

use super::{
    traffic::{Bench, back_end, gateway, route, tables},
    *,
};
use crate::KeyReport;

const FIRST: &str = "sk-first-0123456789abcdef";
const SECOND: &str = "sk-second-0123456789abcdef";

/// A gateway that asks for keys, in front of a back end, with one key.
fn objects(port: u16, back_end: SocketAddr, entries: &[(&str, &str)]) -> Vec<Value> {
    let mut gateway = gateway(&json!([{"name": "http", "port": port, "protocol": "HTTP"}]));
    gateway["metadata"]["annotations"] = json!({"longboat.dev/api-keys": "required"});
    let bytes = |text: &str| serde_json::to_value(k8s_openapi::ByteString(text.as_bytes().to_vec())).unwrap();
    let data: serde_json::Map<_, _> =
        entries.iter().map(|(name, value)| ((*name).to_owned(), bytes(value))).collect();
    let secret = json!({
        "kind": "Secret", "metadata": {"name": "team", "labels": {"longboat.dev/api-key": "true"}}, "data": data,
    });
    let [service, slice] = service("svc", back_end, None);
    vec![gateway, route("r", &json!({"backendRefs": [{"name": "svc", "port": 80}]})), service, slice, secret]
}

async fn simulator(shutdown: &CancellationToken) -> SocketAddr {
    longboat_tls::install_default_provider();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let args = longboat_sim::Args::simulator(&["m", "--inter-token-latency", "20ms"]).unwrap();
    tokio::spawn(longboat_sim::serve(args, listener, shutdown.clone()));
    address
}

struct Keyed {
    bench: Bench,
    back_end: SocketAddr,
}

impl Keyed {
    async fn start(entries: &[(&str, &str)]) -> Self {
        let shutdown = CancellationToken::new();
        Self::before(simulator(&shutdown).await, entries).await
    }

    async fn before(back_end: SocketAddr, entries: &[(&str, &str)]) -> Self {
        let bench = Bench::start(false, |port| objects(port, back_end, entries)).await;
        Self { bench, back_end }
    }

    /// Asks for another protocol. Returns the connection and the head of the response.
    async fn upgrade(&self) -> (TcpStream, String) {
        let mut stream = TcpStream::connect(self.bench.socket).await.unwrap();
        let head = format!(
            "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\nAuthorization: Bearer {FIRST}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(stream.read_u8().await.unwrap());
        }
        (stream, String::from_utf8(answer).unwrap())
    }

    async fn ask(&self, key: Option<&str>, more: &Value) -> reqwest::Response {
        let mut body = json!({"model": "m", "prompt": "hello", "max_tokens": 5, "ignore_eos": true});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.post(format!("http://{}/v1/completions", self.bench.socket)).json(&body);
        let request = key.into_iter().fold(request, reqwest::RequestBuilder::bearer_auth);
        request.send().await.unwrap()
    }

    fn report(&self) -> KeyReport {
        let [report] = self.bench.accounts.report(self.bench.tables.load().keys()).try_into().unwrap();
        report
    }

    /// Waits until no request runs.
    async fn ended(&self) -> crate::KeyUsage {
        for _ in 0..2000 {
            let usage = self.report().usage;
            if usage.concurrent_requests == 0 {
                return usage;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        panic!("{:?}", self.report());
    }

    /// Waits until as many tokens of answers are counted.
    async fn counted(&self, completion: u64) {
        for _ in 0..2000 {
            let usage = self.report().usage;
            if usage.completion_tokens == completion && usage.concurrent_requests == 0 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        panic!("{:?}, and not {completion} tokens", self.report());
    }
}

/// The status, the code of the error, and whether there is a Retry-After.
async fn refusal(answer: reqwest::Response) -> (u16, String, bool) {
    let (status, retry) = (answer.status().as_u16(), answer.headers().contains_key(header::RETRY_AFTER));
    let body: Value = answer.json().await.unwrap();
    (status, body["error"]["code"].as_str().unwrap_or_default().to_owned(), retry)
}

#[tokio::test]
async fn only_a_valid_key_passes_and_a_new_one_needs_no_restart() {
    let keyed = Keyed::start(&[("key", FIRST)]).await;
    let none = Value::Object(serde_json::Map::new());
    for key in [None, Some(SECOND), Some("")] {
        let answer = keyed.ask(key, &none).await;
        assert_eq!(answer.headers()[header::WWW_AUTHENTICATE], "Bearer");
        assert_eq!(refusal(answer).await, (401, "invalid_api_key".into(), false), "{key:?}");
    }
    assert_eq!(keyed.bench.accounts.unauthorized(), 3);
    let answer: Value = keyed.ask(Some(FIRST), &none).await.json().await.unwrap();
    assert_eq!(answer["usage"]["completion_tokens"], 5);
    keyed.counted(5).await;
    let usage = keyed.report().usage;
    assert_eq!(usage.prompt_tokens, answer["usage"]["prompt_tokens"].as_u64().unwrap());

    let next = |entries: &[(&str, &str)]| {
        tables(keyed.bench.socket, objects(keyed.bench.socket.port(), keyed.back_end, entries))
            .replace(&keyed.bench.tables);
    };
    next(&[("key", SECOND)]);
    assert_eq!(keyed.ask(Some(FIRST), &none).await.status(), 401);
    assert_eq!(keyed.ask(Some(SECOND), &none).await.status(), 200);
    assert_eq!(keyed.report().usage.requests, 2, "the account belongs to the Secret");
    next(&[("key", SECOND), ("tokenPerDay", "1")]);
    assert_eq!(keyed.ask(Some(SECOND), &none).await.status(), 401, "a malformed Secret opens nothing");
    assert!(keyed.report().problem.is_some());
}

#[tokio::test]
async fn a_stream_is_counted_and_the_client_sees_what_it_has_asked_for() {
    let keyed = Keyed::start(&[("key", FIRST)]).await;
    let plain = keyed.ask(Some(FIRST), &json!({"stream": true})).await.text().await.unwrap();
    assert!(!plain.contains("\"usage\":{") && plain.ends_with("data: [DONE]\n\n"), "{plain}");
    keyed.counted(5).await;
    let asked = json!({"stream": true, "stream_options": {"include_usage": true}});
    let with_usage = keyed.ask(Some(FIRST), &asked).await.text().await.unwrap();
    assert!(with_usage.contains("\"completion_tokens\":5"), "{with_usage}");
    keyed.counted(10).await;
    // Of two fields with one name the engine takes the last, and the gateway cannot change it.
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let twice = client
        .post(format!("http://{}/v1/completions", keyed.bench.socket))
        .bearer_auth(FIRST)
        .body(r#"{"model": "m", "prompt": "hello", "stream": false, "stream": true}"#);
    assert_eq!(twice.send().await.unwrap().status(), 400);
    // A header of a request that changes nothing makes no tokens free.
    let upgrading = client
        .post(format!("http://{}/v1/completions", keyed.bench.socket))
        .bearer_auth(FIRST)
        .header(header::CONNECTION, "upgrade")
        .header(header::UPGRADE, "websocket")
        .json(&json!({"model": "m", "prompt": "hello", "max_tokens": 5, "ignore_eos": true}));
    assert_eq!(upgrading.send().await.unwrap().status(), 200);
    keyed.counted(15).await;
    // A client that goes away in the middle frees its place, and pays for what it has got.
    let before = keyed.report().usage;
    let mut cut = keyed.ask(Some(FIRST), &json!({"stream": true, "max_tokens": 200})).await;
    let mut text = Vec::new();
    while text.windows(5).filter(|window| window == b"data:").count() < 3 {
        text.extend(cut.chunk().await.unwrap().unwrap());
    }
    drop(cut);
    let after = keyed.ended().await;
    assert!(after.completion_tokens >= before.completion_tokens + 3, "{before:?}, {after:?}");
    let prompt = "hello".len().div_ceil(4) as u64;
    assert_eq!(
        after.prompt_tokens,
        before.prompt_tokens + prompt,
        "estimated, because the report is at the end"
    );
}

#[tokio::test]
async fn a_prompt_counts_although_its_client_does_not_wait_for_the_answer() {
    let keyed = Keyed::start(&[("key", FIRST)]).await;
    let slow = json!({"prompt": "x".repeat(400), "max_tokens": 200});
    let answer = tokio::time::timeout(std::time::Duration::from_millis(500), keyed.ask(Some(FIRST), &slow));
    assert!(answer.await.is_err(), "the client has gone before the answer");
    let usage = keyed.ended().await;
    assert_eq!((usage.requests, usage.prompt_tokens, usage.completion_tokens), (1, 100, 0));
}

#[tokio::test]
async fn an_upgraded_connection_keeps_its_place_and_needs_a_key_without_limits_of_tokens() {
    let keyed = Keyed::before(back_end().await, &[("key", FIRST), ("concurrentRequests", "1")]).await;
    let (stream, head) = keyed.upgrade().await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert_eq!(keyed.report().usage.concurrent_requests, 1);
    assert!(keyed.upgrade().await.1.starts_with("HTTP/1.1 429 "));
    drop(stream);
    keyed.ended().await;
    assert!(keyed.upgrade().await.1.starts_with("HTTP/1.1 101 "));

    let keyed = Keyed::before(back_end().await, &[("key", FIRST), ("tokensPerDay", "9")]).await;
    assert!(keyed.upgrade().await.1.starts_with("HTTP/1.1 403 "));
    assert_eq!(keyed.ended().await.prompt_tokens, 0);
}

#[tokio::test]
async fn limits_refuse_in_openais_words() {
    let keyed = Keyed::start(&[("key", FIRST), ("requestsPerDay", "1"), ("models", "other, m")]).await;
    let model = |name: &str| json!({"model": name});
    let refused = refusal(keyed.ask(Some(FIRST), &model("secret")).await).await;
    assert_eq!(refused, (403, "model_not_allowed".into(), false));
    assert_eq!(keyed.ask(Some(FIRST), &model("m")).await.status(), 200, "a refused model is no request");
    let refused = refusal(keyed.ask(Some(FIRST), &model("m")).await).await;
    assert_eq!(refused, (429, "rate_limit_exceeded".into(), true));

    let keyed = Keyed::start(&[("key", FIRST), ("tokensPerMinute", "3"), ("tokensPerDay", "3")]).await;
    assert_eq!(keyed.ask(Some(FIRST), &model("m")).await.status(), 200);
    keyed.counted(5).await;
    assert_eq!(keyed.ask(Some(FIRST), &model("m")).await.status(), 429);
}
