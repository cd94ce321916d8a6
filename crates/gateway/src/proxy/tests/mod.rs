//! Tests of the proxy over real sockets, with simulators as back ends and scripted ext_proc servers as pickers.

mod eviction;
mod local_pickers;
mod pickers;
mod requests;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures::StreamExt;
use longboat_epp::host::LocalPickers;
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
use crate::{
    Guard, RoutingInputs, ports::Ports, resolved::Resolved, route::RouteParser, server::ProxyThreads,
    tables::Tables,
};

/// The behaviour of a test's picker.
#[derive(Clone, Default)]
struct Script {
    destination: String,
    /// Whether the picker never decides where a request goes.
    undecided: bool,
    /// Replaces the model name `m` in the response by this one.
    rename: Option<&'static str>,
    /// Whether the picker says of each part of a body that nothing changes.
    keeps: bool,
    refuse: Option<u16>,
    response_bytes: Arc<Mutex<usize>>,
    seen_destination: Arc<Mutex<Option<String>>>,
    seen_status: Arc<Mutex<Option<String>>>,
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
                out.push(if self.keeps {
                    Action::RequestBodyUnchanged
                } else {
                    Action::RequestBody { body, end_of_stream }
                });
            }
            Event::RequestTrailers(_) => out.push(Action::RequestTrailers(HeaderChanges::default())),
            Event::ResponseHeaders { headers, .. } => {
                *self.seen_status.lock() = headers.get(":status").map(Into::into);
                out.push(Action::ResponseHeaders(HeaderChanges {
                    set: vec![Header::new("x-went-into-resp-headers", "true")],
                    ..HeaderChanges::default()
                }));
            }
            Event::ResponseBody { body, end_of_stream } => {
                *self.response_bytes.lock() += body.len();
                if self.keeps {
                    return out.push(Action::ResponseBodyUnchanged);
                }
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
    /// The address of the port of another Gateway, which has no routes.
    further_url: String,
    port: u16,
    /// The pickers of the gateway's process: none, unless a test runs them.
    local: Arc<LocalPickers>,
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

/// Creates a gateway where `/pool` leads to a pool with one ready simulator, and `/svc` to a Service. Below `/hurried`, both have to
/// answer within 300 ms.
async fn bench(
    picker: Option<SocketAddr>,
    simulator: SocketAddr,
    service: &[SocketAddr],
    mode: &str,
) -> Bench {
    bench_with(picker, simulator, service, mode, Guard::default()).await
}

/// Like `bench`, with several pickers.
async fn bench_pickers(pickers: &[SocketAddr], simulator: SocketAddr) -> Bench {
    observed(pickers, simulator, &[], "FailClose", Guard::default()).await
}

async fn bench_with(
    picker: Option<SocketAddr>,
    simulator: SocketAddr,
    service: &[SocketAddr],
    mode: &str,
    guard: Guard,
) -> Bench {
    observed(picker.as_slice(), simulator, service, mode, guard).await
}

async fn observed(
    pickers: &[SocketAddr],
    simulator: SocketAddr,
    service: &[SocketAddr],
    mode: &str,
    guard: Guard,
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
    let hurried = |path: &str, backend: &Value| {
        let mut rule = rule(path, backend.clone());
        rule["timeouts"] = json!({"request": "300ms"});
        rule
    };
    let mirrored = |backend: &Value| {
        let mut rule = rule("/mirrored", backend.clone());
        let mirror = json!({"type": "RequestMirror", "requestMirror": {"backendRef": backend}});
        rule["filters"].as_array_mut().unwrap().push(mirror);
        rule
    };
    let retried = |backend: &Value| {
        let mut rule = rule("/retried", backend.clone());
        rule["retry"] = json!({"codes": [503], "attempts": 2});
        rule
    };
    let pool = json!({"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "pool"});
    let svc = json!({"name": "svc", "port": 80});
    let observed = RoutingInputs {
        classes: vec![object(
            json!({"metadata": {"name": "c"}, "spec": {"controllerName": crate::CONTROLLER_NAME}}),
        )],
        gateways: vec![object(json!({
            "metadata": {"name": "g", "namespace": "ns"},
            "spec": {"gatewayClassName": "c", "listeners": [{"name": "http", "port": port, "protocol": "HTTP"}]},
        }))],
        routes: vec![
            object(json!({
                "metadata": {"name": "r", "namespace": "ns"},
                "spec": {"parentRefs": [{"name": "g"}], "rules": [
                    hurried("/hurried/pool", &pool),
                    hurried("/hurried/svc", &svc),
                    mirrored(&svc),
                    retried(&svc),
                    rule("/pool", pool),
                    rule("/svc", svc),
                ]},
            })),
            object(json!({
                "metadata": {"name": "odd", "namespace": "ns"},
                "spec": {"parentRefs": [{"name": "g"}], "rules": [{
                    "matches": [{"path": {"type": "PathPrefix", "value": "/odd/chat"}}],
                    "filters": [{"type": "URLRewrite", "urlRewrite": {"path":
                        {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/v1/chat/completions"}}}],
                    "backendRefs": [{"name": "svc", "port": 80}],
                }]},
            })),
        ],
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
        inference: vec![
            object(json!({
                "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
                "metadata": {"name": "qwen", "namespace": "ns"},
                "spec": {"model": {"uri": "hf://a/b"}},
                "status": {
                    "url": format!("http://127.0.0.1:{port}/svc"),
                    "addresses": [{"url": "http://x/", "models": [{"name": "m"}]}],
                },
            })),
            object(json!({
                "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
                "metadata": {"name": "rewritten", "namespace": "ns"},
                "spec": {"model": {"uri": "hf://a/b"}},
                "status": {
                    "url": format!("http://127.0.0.1:{port}/odd/chat"),
                    "addresses": [{"url": "http://x/", "models": [{"name": "odd"}]}],
                    "router": {"gateways": [{"name": "g", "namespace": "ns", "httpRoutes": [{"name": "odd", "namespace": "ns"}]}]},
                },
            })),
        ],
        ..RoutingInputs::default()
    };
    let front = listener.local_addr().unwrap();
    let ports = Ports::only(front.ip(), port, &observed.gateways);
    let resolved = Resolved::new(&observed, &ports, &mut RouteParser::default());
    let tables = Arc::new(ArcSwap::from_pointee(Tables::new(&observed, &ports, &resolved)));
    let shutdown = CancellationToken::new();
    let proxy = Proxy::new(tables, Some(guard), Some(front), shutdown.clone());
    // On the runtime of the test, whose time may be paused.
    let threads = longboat_accept::ConnectionThreads::start("", 0).unwrap();
    let threads = ProxyThreads::with(threads, &proxy);
    let local = proxy.local_pickers();
    let further = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let further_url = format!("http://{}", further.local_addr().unwrap());
    for listener in [listener, further] {
        let (threads, until) = (threads.clone(), shutdown.clone());
        tokio::spawn(async move { threads.serve(listener, None, Duration::from_secs(2), until).await });
    }
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    Bench { url: format!("http://127.0.0.1:{port}"), further_url, port, local, client, shutdown }
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
