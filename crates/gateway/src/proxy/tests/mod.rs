//! Tests of the proxy over real sockets, with simulators as back ends and scripted ext_proc servers as pickers.

mod eviction;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures::StreamExt;
use longboat_extproc::{
    Action, Event, Header, HeaderChanges, ImmediateResponse, Incoming as Message, Outbox, Processor,
    ProcessorExchange, ServerOptions, names,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
};
use tokio_util::sync::CancellationToken;

use super::Proxy;
use crate::{Access, Observed, ports::Ports, route::Tables, server};

/// The behaviour of a test's picker.
#[derive(Clone, Default)]
struct Script {
    destination: String,
    /// Whether the picker never decides where a request goes.
    undecided: bool,
    /// Replaces the model name `m` in the response by this one.
    rename: Option<&'static str>,
    refuse: Option<u16>,
    response_bytes: Arc<Mutex<usize>>,
    seen_destination: Arc<Mutex<Option<String>>>,
    /// Notified when an undecided picker has received a whole request.
    stuck: Arc<Notify>,
}

impl Processor for Script {
    type Exchange = Self;

    fn open(&self) -> Self {
        self.clone()
    }
}

impl ProcessorExchange for Script {
    fn handle(&mut self, incoming: Message, out: &mut Outbox) {
        let chosen = || HeaderChanges {
            set: vec![Header::new(names::DESTINATION, self.destination.clone())],
            ..HeaderChanges::default()
        };
        match incoming.event {
            Event::RequestBody { end_of_stream: true, .. } if self.undecided => {
                self.stuck.notify_one();
            }
            Event::RequestHeaders { headers, end_of_stream } => {
                *self.seen_destination.lock() = headers.get(names::DESTINATION).map(Into::into);
                if let Some(status) = self.refuse {
                    let body = Bytes::from_static(b"no");
                    out.push(Action::Immediate(ImmediateResponse {
                        status,
                        body,
                        ..ImmediateResponse::default()
                    }));
                } else if end_of_stream {
                    out.push(Action::RequestHeaders(chosen()));
                }
            }
            Event::RequestBody { body, end_of_stream } => {
                // The test's requests are small: they come in one chunk, and perhaps an empty last one.
                if !body.is_empty() {
                    out.push(Action::RequestHeaders(chosen()));
                }
                out.push(Action::RequestBody { body, end_of_stream });
            }
            Event::RequestTrailers(_) => out.push(Action::RequestTrailers(HeaderChanges::default())),
            Event::ResponseHeaders { .. } => out.push(Action::ResponseHeaders(HeaderChanges {
                set: vec![Header::new("x-went-into-resp-headers", "true")],
                ..HeaderChanges::default()
            })),
            Event::ResponseBody { body, end_of_stream } => {
                *self.response_bytes.lock() += body.len();
                let body = match self.rename {
                    None => body,
                    Some(name) => {
                        let text = String::from_utf8(body.to_vec()).unwrap();
                        text.replace(r#""model":"m""#, &format!(r#""model":"{name}""#)).into()
                    }
                };
                out.push(Action::ResponseBody { body, end_of_stream });
            }
            Event::ResponseTrailers(_) => out.push(Action::ResponseTrailers(HeaderChanges::default())),
        }
    }
}

struct Bench {
    url: String,
    port: u16,
    client: reqwest::Client,
    shutdown: CancellationToken,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

async fn simulator(shutdown: &CancellationToken, arguments: &[&str]) -> SocketAddr {
    longboat_tls::install_default_provider();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut all = vec!["m"];
    all.extend(arguments);
    let args = longboat_sim::Args::simulator(&all).unwrap();
    tokio::spawn(longboat_sim::serve(args, listener, shutdown.clone()));
    address
}

async fn picker<P: Processor>(shutdown: &CancellationToken, script: P) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let pair =
        longboat_tls::self_signed(&longboat_tls::LeafRequest { days: 1, ..Default::default() }).unwrap();
    let tls = longboat_tls::server_config(&pair, &[b"h2"]).unwrap();
    let options = ServerOptions { tls: Some(tls), ..ServerOptions::default() };
    tokio::spawn(longboat_extproc::serve(listener, Arc::new(script), options, shutdown.clone()));
    address
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn slice(service: &str, endpoints: &[SocketAddr]) -> Value {
    json!({
        "metadata": {"name": format!("{service}-1"), "namespace": "ns", "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4",
        "ports": [{"port": endpoints.first().map_or(1, SocketAddr::port)}],
        "endpoints": endpoints.iter().map(|endpoint| json!({"addresses": [endpoint.ip()]})).collect::<Vec<_>>(),
    })
}

/// Creates a gateway where `/pool` leads to a pool with one ready simulator, and `/svc` to a Service.
async fn bench(
    picker: Option<SocketAddr>,
    simulator: SocketAddr,
    service: &[SocketAddr],
    mode: &str,
) -> Bench {
    bench_with(picker, simulator, service, mode, Access::default()).await
}

/// Like `bench`, with several pickers.
async fn bench_pickers(pickers: &[SocketAddr], simulator: SocketAddr) -> Bench {
    observed(pickers, simulator, &[], "FailClose", Access::default()).await
}

async fn bench_with(
    picker: Option<SocketAddr>,
    simulator: SocketAddr,
    service: &[SocketAddr],
    mode: &str,
    access: Access,
) -> Bench {
    observed(picker.as_slice(), simulator, service, mode, access).await
}

async fn observed(
    pickers: &[SocketAddr],
    simulator: SocketAddr,
    service: &[SocketAddr],
    mode: &str,
    access: Access,
) -> Bench {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let rule = |path: &str, backend: Value| {
        json!({
            "matches": [{"path": {"type": "PathPrefix", "value": path}}],
            "filters": [{"type": "URLRewrite", "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}}],
            "backendRefs": [backend],
        })
    };
    let observed = Observed {
        classes: vec![object(
            json!({"metadata": {"name": "c"}, "spec": {"controllerName": crate::CONTROLLER_NAME}}),
        )],
        gateways: vec![object(json!({
            "metadata": {"name": "g", "namespace": "ns"},
            "spec": {"gatewayClassName": "c", "listeners": [{"name": "http", "port": port, "protocol": "HTTP"}]},
        }))],
        routes: vec![object(json!({
            "metadata": {"name": "r", "namespace": "ns"},
            "spec": {"parentRefs": [{"name": "g"}], "rules": [
                rule("/pool", json!({"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "pool"})),
                rule("/svc", json!({"name": "svc", "port": 80})),
            ]},
        }))],
        pools: vec![object(json!({
            "metadata": {"name": "pool", "namespace": "ns"},
            "spec": {
                "selector": {"matchLabels": {"app": "x"}}, "targetPorts": [{"number": simulator.port()}],
                "endpointPickerRef": {"kind": "Service", "name": "epp", "port": {"number": 9002}, "failureMode": mode},
            },
        }))],
        services: vec![
            object(
                json!({"metadata": {"name": "epp", "namespace": "ns"}, "spec": {"ports": [{"port": 9002}]}}),
            ),
            object(
                json!({"metadata": {"name": "svc", "namespace": "ns"}, "spec": {"ports": [{"port": 80}]}}),
            ),
        ],
        slices: vec![object(slice("epp", pickers)), object(slice("svc", service))],
        pods: vec![object(json!({
            "metadata": {"name": "p", "namespace": "ns", "labels": {"app": "x"}},
            "status": {"podIP": simulator.ip(), "conditions": [{"type": "Ready", "status": "True"}]},
        }))],
        inference: vec![object(json!({
            "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
            "metadata": {"name": "qwen", "namespace": "ns"},
            "spec": {"model": {"uri": "hf://a/b"}},
            "status": {
                "url": format!("http://127.0.0.1:{port}/svc"),
                "addresses": [{"url": "http://x/", "models": [{"name": "m"}]}],
            },
        }))],
        ..Observed::default()
    };
    let ports = Ports::only("127.0.0.1".parse().unwrap(), port);
    let tables = Arc::new(ArcSwap::from_pointee(Tables::new(&observed, &ports)));
    let shutdown = CancellationToken::new();
    tokio::spawn(server::run(listener, Arc::new(Proxy::new(tables, access)), shutdown.clone()));
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    Bench { url: format!("http://127.0.0.1:{port}"), port, client, shutdown }
}

impl Bench {
    async fn ask(&self, path: &str, stream: bool) -> reqwest::Response {
        let body = json!({
            "model": "m", "stream": stream, "ignore_eos": true, "max_tokens": 12,
            "messages": [{"role": "user", "content": "hello"}],
        });
        let url = format!("{}{path}/v1/chat/completions", self.url);
        self.client.post(url).header(names::DESTINATION, "203.0.113.1:1").json(&body).send().await.unwrap()
    }
}

#[tokio::test]
async fn a_pools_answer_streams_through_the_picker_chunk_by_chunk() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &["--inter-token-latency", "30ms"]).await;
    let script = Script { destination: simulator.to_string(), ..Script::default() };
    let picker = picker(&shutdown, script.clone()).await;
    let bench = bench(Some(picker), simulator, &[], "FailClose").await;
    let response = bench.ask("/pool", true).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["x-went-into-resp-headers"], "true");
    let mut chunks = response.bytes_stream();
    let first = chunks.next().await.unwrap().unwrap();
    assert!(!String::from_utf8_lossy(&first).contains("[DONE]"), "the first chunk holds the whole answer");
    let mut bytes = first.len();
    let mut last = first;
    while let Some(chunk) = chunks.next().await {
        last = chunk.unwrap();
        bytes += last.len();
    }
    assert!(last.ends_with(b"data: [DONE]\n\n"));
    assert_eq!(bytes, *script.response_bytes.lock());
    assert_eq!(*script.seen_destination.lock(), None, "a client must not choose the endpoint");
}

#[tokio::test]
async fn a_dead_choice_of_the_picker_costs_no_request() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &[]).await;
    let script = Script { destination: "127.0.0.1:1".into(), ..Script::default() };
    let picker = picker(&shutdown, script).await;
    let bench = bench(Some(picker), simulator, &[], "FailClose").await;
    let response = bench.ask("/pool", false).await;
    assert_eq!(response.status(), 200);
    let answer: Value = response.json().await.unwrap();
    assert_eq!(answer["usage"]["completion_tokens"], 12);
}

#[tokio::test]
async fn without_a_picker_the_failure_mode_decides() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &[]).await;
    let open = bench(None, simulator, &[], "FailOpen").await;
    assert_eq!(open.ask("/pool", false).await.status(), 200);
    let closed = bench(None, simulator, &[], "FailClose").await;
    assert_eq!(closed.ask("/pool", false).await.status(), 503);
    let gone: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let unreachable = bench(Some(gone), simulator, &[], "FailOpen").await;
    assert_eq!(unreachable.ask("/pool", false).await.status(), 200);
}

#[tokio::test]
async fn the_pickers_refusal_is_the_answer() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &[]).await;
    let picker = picker(&shutdown, Script { refuse: Some(429), ..Script::default() }).await;
    let bench = bench(Some(picker), simulator, &[], "FailOpen").await;
    let response = bench.ask("/pool", false).await;
    assert_eq!(response.status(), 429);
    assert_eq!(response.text().await.unwrap(), "no");
}

#[tokio::test]
async fn a_client_that_leaves_stops_the_work_behind_the_picker() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &["--inter-token-latency", "200ms"]).await;
    let script = Script { destination: simulator.to_string(), ..Script::default() };
    let picker = picker(&shutdown, script).await;
    let bench = bench(Some(picker), simulator, &[], "FailClose").await;
    let mut chunks = bench.ask("/pool", true).await.bytes_stream();
    chunks.next().await.unwrap().unwrap();
    drop(chunks);
    for _ in 0..200 {
        let page = bench
            .client
            .get(format!("http://{simulator}/metrics"))
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap();
        if page.lines().any(|line| line.starts_with("vllm:num_requests_running") && line.ends_with(" 0")) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the abandoned request is still running");
}

#[tokio::test]
async fn a_service_is_reached_past_an_endpoint_that_is_gone() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &[]).await;
    // Nothing listens on this address. The port is the same, as for all endpoints of a slice.
    let gone = SocketAddr::new("127.0.0.9".parse().unwrap(), simulator.port());
    let bench = bench(None, simulator, &[gone, simulator], "FailOpen").await;
    for _ in 0..8 {
        let response = bench.ask("/svc", false).await;
        assert_eq!(response.status(), 200);
    }
    assert_eq!(bench.client.get(format!("{}/nothing", bench.url)).send().await.unwrap().status(), 404);
}

/// Creates a picker that dies with the returned token, together with its connections.
async fn mortal(script: Script) -> (SocketAddr, CancellationToken) {
    let life = CancellationToken::new();
    (picker(&life, script).await, life)
}

#[tokio::test]
async fn a_response_goes_on_when_the_picker_dies_under_it() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &["--inter-token-latency", "20ms"]).await;
    for mode in ["FailOpen", "FailClose"] {
        for rename in [None, Some("another")] {
            let script = Script { destination: simulator.to_string(), rename, ..Script::default() };
            let (picker, life) = mortal(script).await;
            let bench = bench(Some(picker), simulator, &[], mode).await;
            let mut chunks = bench.ask("/pool", true).await.bytes_stream();
            let mut text = String::new();
            while text.matches("data: ").count() < 3 {
                text += std::str::from_utf8(&chunks.next().await.unwrap().unwrap()).unwrap();
            }
            life.cancel();
            while let Some(chunk) = chunks.next().await {
                text += std::str::from_utf8(&chunk.unwrap()).unwrap();
            }
            assert!(text.ends_with("data: [DONE]\n\n"), "{mode}: {text}");
            let tokens = text.matches(r#""content":""#).count();
            assert!((12..=14).contains(&tokens), "{mode}: every chunk once: {text}");
        }
    }
}

#[tokio::test]
async fn a_request_is_decided_without_the_picker_when_it_dies_while_it_decides() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &[]).await;
    for (mode, status) in [("FailOpen", 200), ("FailClose", 503)] {
        let script = Script { undecided: true, ..Script::default() };
        let (stuck, (picker, life)) = (script.stuck.clone(), mortal(script).await);
        let bench = bench(Some(picker), simulator, &[], mode).await;
        let killer = async {
            stuck.notified().await;
            life.cancel();
        };
        let (response, ()) = tokio::join!(bench.ask("/pool", false), killer);
        assert_eq!(response.status(), status, "{mode}");
    }
}

#[tokio::test]
async fn another_picker_decides_when_the_first_one_dies() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &[]).await;
    // All pickers of a Service have the same port and different addresses.
    let good = Script { destination: simulator.to_string(), ..Script::default() };
    let good = picker(&shutdown, good).await;
    let gone = SocketAddr::new("127.0.0.9".parse().unwrap(), good.port());
    for _ in 0..4 {
        let bench = bench_pickers(&[gone, good], simulator).await;
        assert_eq!(bench.ask("/pool", false).await.status(), 200);
    }
}

/// Sends these bytes, and returns the response up to the end of the connection.
async fn raw(bench: &Bench, bytes: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", bench.port)).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn requests_with_two_meanings_or_for_foreign_hosts_are_refused() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &[]).await;
    let bench = bench(None, simulator, &[simulator], "FailOpen").await;
    let smuggled = "0\r\n\r\nGET /svc/v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (request, status) in [
        ("GET /svc/v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".to_owned(), "200"),
        ("GET /svc/v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://localhost:3000\r\nConnection: close\r\n\r\n".to_owned(), "200"),
        ("GET /svc/v1/models HTTP/1.1\r\n\r\n".to_owned(), "400"),
        ("GET /svc/v1/models HTTP/1.0\r\n\r\n".to_owned(), "200"),
        ("GET /svc/v1/models HTTP/1.1\r\n\r\n".to_owned(), "400"),
        ("GET /svc/v1/models HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n".to_owned(), "400"),
        ("GET /svc/v1/models HTTP/1.1\r\nHost: a@localhost\r\n\r\n".to_owned(), "400"),
        ("GET http://localhost/svc/v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".to_owned(), "400"),
        ("GET /svc/v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned(), "403"),
        ("GET / HTTP/1.1\r\nHost: evil.example:80\r\n\r\n".to_owned(), "403"),
        ("GET /svc/v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n".to_owned(), "403"),
        ("GET /svc/v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n\r\n".to_owned(), "403"),
        (
            format!(
                "POST /svc/v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n{smuggled}",
                smuggled.len()
            ),
            "400",
        ),
    ] {
        let answer = raw(&bench, &request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) || answer.starts_with(&format!("HTTP/1.0 {status}")), "{request}\n{answer}");
        assert_eq!(answer.matches("HTTP/1.").count(), 1, "{request}\n{answer}");
    }
    // A valid request before such a request on the same connection is served; one after it is not.
    let fine = "GET /svc/v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let ambiguous = "POST /svc/v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let answers = raw(&bench, &[fine, fine, ambiguous, fine].concat()).await;
    let codes: Vec<_> = answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
    assert_eq!(codes, ["200", "200", "400"], "{answers}");
}

#[tokio::test]
async fn the_root_says_what_is_served_and_routes_by_the_model_of_the_body() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &[]).await;
    let access = Access { origins: vec!["https://chat.example".into()], ..Access::default() };
    let bench = bench_with(None, simulator, &[simulator], "FailOpen", access).await;
    let get = |path: &str, accept: &'static str| {
        bench.client.get(format!("{}{path}", bench.url)).header("accept", accept).send()
    };
    let index: Value = get("/", "application/json").await.unwrap().json().await.unwrap();
    assert_eq!(index["services"][0]["url"], format!("{}/svc", bench.url));
    assert!(get("/", "*/*").await.unwrap().text().await.unwrap().contains("ns/qwen"));
    let models: Value = get("/v1/models", "*/*").await.unwrap().json().await.unwrap();
    assert_eq!((&models["object"], &models["data"][0]["id"]), (&json!("list"), &json!("m")));
    assert_eq!(get("/v1/models/m", "*/*").await.unwrap().status(), 200);
    assert_eq!(get("/v1/models/n", "*/*").await.unwrap().status(), 404);

    let ask = |model: Value| {
        let body = json!({"messages": [{"role": "user", "content": "x".repeat(300_000)}], "max_tokens": 2, "model": model});
        let url = format!("{}/v1/chat/completions", bench.url);
        bench.client.post(url).header("origin", "https://chat.example").json(&body).send()
    };
    let response = ask(json!("m")).await.unwrap();
    assert_eq!(response.headers()["access-control-allow-origin"], "https://chat.example");
    let answer: Value = response.json().await.unwrap();
    assert_eq!(answer["usage"]["completion_tokens"], 2);
    let response = ask(json!("nobody")).await.unwrap();
    assert_eq!(response.status(), 404);
    let error: Value = response.json().await.unwrap();
    assert_eq!(error["error"]["code"], "model_not_found");
    assert_eq!(error["error"]["message"], "The model `nobody` does not exist: there is `m`");
    for model in [json!(null), json!(5)] {
        assert_eq!(ask(model).await.unwrap().status(), 400);
    }
    let preflight = bench
        .client
        .request(reqwest::Method::OPTIONS, format!("{}/v1/chat/completions", bench.url))
        .header("origin", "https://chat.example")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "content-type")
        .send()
        .await
        .unwrap();
    assert_eq!(preflight.status(), 204);
    assert_eq!(preflight.headers()["access-control-allow-headers"], "content-type");
}

#[tokio::test]
async fn what_only_a_picker_may_say_does_not_pass() {
    let shutdown = CancellationToken::new();
    let seen: Arc<Mutex<Option<http::HeaderMap>>> = Arc::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let echo = listener.local_addr().unwrap();
    let sink = seen.clone();
    let connection = move |stream, _| {
        let sink = sink.clone();
        async move {
            let service = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
                *sink.lock() = Some(request.headers().clone());
                async { Ok::<_, std::convert::Infallible>(http::Response::new(String::from("ok"))) }
            });
            let io = hyper_util::rt::TokioIo::new(stream);
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
        }
    };
    let end = shutdown.clone();
    tokio::spawn(async move { longboat_accept::until(&end, listener, 8, connection).await });
    let bench = bench(None, echo, &[echo], "FailOpen").await;
    for path in ["/pool", "/svc"] {
        let url = format!("{}{path}/v1/completions", bench.url);
        let request = names::STEERING.iter().fold(bench.client.post(url), |request, name| {
            request.header(*name, "203.0.113.1:1").header("connection", "close")
        });
        assert_eq!(request.body("{}").send().await.unwrap().status(), 200);
        let headers = seen.lock().take().unwrap();
        assert!(names::STEERING.iter().all(|name| !headers.contains_key(*name)), "{path}: {headers:?}");
    }
}
