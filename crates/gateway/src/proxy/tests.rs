//! The proxy over real sockets: simulators behind it, and an ext_proc server that says what the test wants.

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
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Proxy;
use crate::{World, route::Table, server};

/// What the picker of a test does.
#[derive(Clone, Default)]
struct Script {
    destination: String,
    refuse: Option<u16>,
    response_bytes: Arc<Mutex<usize>>,
    seen_destination: Arc<Mutex<Option<String>>>,
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
                // The simulator's requests here are small: they come in one chunk, and perhaps an empty last one.
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
                out.push(Action::ResponseBody { body, end_of_stream });
            }
            Event::ResponseTrailers(_) => out.push(Action::ResponseTrailers(HeaderChanges::default())),
        }
    }
}

struct Bench {
    url: String,
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

async fn picker(shutdown: &CancellationToken, script: Script) -> SocketAddr {
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

/// A gateway with `/pool` leading to a pool with one ready simulator, and `/svc` to a Service.
async fn bench(
    picker: Option<SocketAddr>,
    simulator: SocketAddr,
    service: &[SocketAddr],
    mode: &str,
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
    let world = World {
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
        slices: vec![object(slice("epp", picker.as_slice())), object(slice("svc", service))],
        pods: vec![object(json!({
            "metadata": {"name": "p", "namespace": "ns", "labels": {"app": "x"}},
            "status": {"podIP": simulator.ip(), "conditions": [{"type": "Ready", "status": "True"}]},
        }))],
        namespaces: Vec::new(),
    };
    let table = Arc::new(ArcSwap::from_pointee(Table::new(&world, port)));
    let shutdown = CancellationToken::new();
    tokio::spawn(server::run(listener, Arc::new(Proxy::new(table)), shutdown.clone()));
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    Bench { url: format!("http://127.0.0.1:{port}"), client, shutdown }
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
    // Nothing listens on this address; the port is the same, as for all endpoints of a slice.
    let gone = SocketAddr::new("127.0.0.9".parse().unwrap(), simulator.port());
    let bench = bench(None, simulator, &[gone, simulator], "FailOpen").await;
    for _ in 0..8 {
        let response = bench.ask("/svc", false).await;
        assert_eq!(response.status(), 200);
    }
    assert_eq!(bench.client.get(format!("{}/nothing", bench.url)).send().await.unwrap().status(), 404);
}
