//! A pod of a Gateway: a port that was taken, and, when the pod ends, requests that wait for the first replica and upgraded connections.

use std::{net::TcpListener, time::Duration};

use kube::Client;
use longboat_apiserver::{ApiServer, Options};
use longboat_key::{Name, Namespace};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{
    statuses::create,
    traffic::{self, gateway, route},
    *,
};
use crate::{
    Args, CONTROLLER_NAME, Picking, proxy::Proxy, serve, server::ProxyThreads, socket_tls::SocketTls,
    tables::SharedTables,
};

/// The process of a pod, whose Gateway leads to a Service without endpoints.
struct Pod {
    client: Client,
    port: u16,
    monitoring_port: u16,
    process: JoinHandle<()>,
    shutdown: CancellationToken,
}

const API: &str = "gateway.networking.k8s.io/v1";

/// Adds what the API server needs to know of an object.
fn stored(mut object: Value, api_version: &str) -> Value {
    object["apiVersion"] = api_version.into();
    object["metadata"]["namespace"] = "ns".into();
    object
}

pub(super) async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    for _ in 0..2000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} does not become true");
}

// === impl Pod ===

impl Pod {
    async fn start(drain_timeout: Duration) -> Self {
        let pod = Self::begin(drain_timeout, free_port()).await;
        until("the pod is ready", || pod.has_page("readyz", "ok")).await;
        pod
    }

    async fn begin(drain_timeout: Duration, port: u16) -> Self {
        longboat_tls::install_default_provider();
        let server = ApiServer::new(Options::default()).unwrap();
        let client = server.client("ns");
        let monitoring_port = free_port();
        create_objects(&client, port).await;
        let args = Args {
            kubeconfig: None,
            gateway_namespace: Namespace("ns".into()),
            gateway_name: Name("g".into()),
            listen_address: Some([127, 0, 0, 1].into()),
            monitoring_port,
            picking: Picking::Pods,
            shutdown_delay: Duration::ZERO,
            drain_timeout,
        };
        let shutdown = CancellationToken::new();
        let (of_process, end) = (client.clone(), shutdown.clone());
        let process = tokio::spawn(async move { serve(args, of_process, end).await.unwrap() });
        Self { client, port, monitoring_port, process, shutdown }
    }

    async fn has_page(&self, path: &str, text: &str) -> bool {
        let url = format!("http://127.0.0.1:{}/{path}", self.monitoring_port);
        let Ok(response) = http().get(url).send().await else { return false };
        response.text().await.is_ok_and(|page| page.contains(text))
    }

    async fn add_endpoint(&self) {
        let [_, slice] = service("svc", traffic::back_end().await, None);
        create(&self.client, stored(slice, "discovery.k8s.io/v1")).await;
    }

    /// Sends a request that waits for the first endpoint.
    async fn request(&self) -> JoinHandle<reqwest::Response> {
        let url = format!("http://127.0.0.1:{}/v1/completions", self.port);
        let sent = http().post(url).body(r#"{"model": "m"}"#).send();
        let request = tokio::spawn(async move { sent.await.unwrap() });
        let series = r#"queue_size{namespace="ns",service="svc",model_name="m",target_model_name="m"} 1"#;
        until("the request waits", || self.has_page("metrics", series)).await;
        request
    }

    /// Waits until the pod takes no more connections.
    async fn drain(&self) {
        self.shutdown.cancel();
        let refuses = || async { TcpStream::connect(("127.0.0.1", self.port)).await.is_err() };
        until("new connections are refused", refuses).await;
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn http() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

async fn create_objects(client: &Client, port: u16) {
    create(client, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})).await;
    for crd in longboat_api::crd::foreign() {
        create(client, crd).await;
    }
    let class = json!({"kind": "GatewayClass", "apiVersion": API, "metadata": {"name": "c"},
        "spec": {"controllerName": CONTROLLER_NAME}});
    create(client, class).await;
    let mut gateway = gateway(&json!([{"name": "http", "port": port, "protocol": "HTTP"}]));
    gateway["spec"]["gatewayClassName"] = "c".into();
    create(client, stored(gateway, API)).await;
    let rule = json!({"backendRefs": [{"name": "svc", "port": 80}]});
    create(client, stored(route("r", &rule), API)).await;
    let [mut service, _] = service("svc", "127.0.0.1:1".parse().unwrap(), None);
    service["spec"]["selector"] = json!({"app": "x"});
    create(client, stored(service, "v1")).await;
    let workload = json!({
        "kind": "Deployment", "metadata": {"name": "d", "annotations": {"longboat.dev/wait-at-zero": "true"}},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "template": {
            "metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "main", "image": "vllm"}]},
        }},
    });
    create(client, stored(workload, "apps/v1")).await;
}

#[tokio::test]
async fn a_request_that_waits_in_a_pod_that_ends_gets_the_first_replica() {
    let pod = Pod::start(Duration::from_mins(5)).await;
    let request = pod.request().await;
    pod.drain().await;
    pod.add_endpoint().await;
    let response = request.await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.text().await.unwrap(), "HTTP/1.1 /v1/completions");
    pod.process.await.unwrap();
}

#[tokio::test]
async fn a_request_that_waits_until_its_pod_is_gone_may_try_another_one() {
    let pod = Pod::start(Duration::from_millis(1500)).await;
    let request = pod.request().await;
    pod.drain().await;
    let response = request.await.unwrap();
    assert_eq!(response.status(), 503);
    assert!(response.headers().contains_key("retry-after"));
    assert!(response.text().await.unwrap().contains("the gateway is shutting down"));
    pod.process.await.unwrap();
}

#[tokio::test]
async fn a_pod_that_ends_lets_upgraded_connections_end() {
    let pod = Pod::start(Duration::from_mins(5)).await;
    pod.add_endpoint().await;
    let head = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
    let mut stream = TcpStream::connect(("127.0.0.1", pod.port)).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    assert!(answer.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&answer));
    pod.drain().await;
    stream.write_all(b"ping").await.unwrap();
    let mut echo = [0; 4];
    stream.read_exact(&mut echo).await.unwrap();
    assert_eq!(&echo, b"ping");
    // Otherwise the pod would wait for this connection until the drain time is over.
    drop(stream);
    pod.process.await.unwrap();
}

#[tokio::test]
async fn a_port_that_another_process_had_is_served_when_it_is_free() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let pod = Pod::begin(Duration::ZERO, other.local_addr().unwrap().port()).await;
    let tables = "longboat_gateway_tables_total 3";
    until("the pod has tried again", || pod.has_page("metrics", tables)).await;
    drop(other);
    until("the pod is ready", || pod.has_page("readyz", "ok")).await;
}

#[tokio::test]
async fn a_client_that_begins_no_handshake_does_not_hold_up_the_end() {
    longboat_tls::install_default_provider();
    let (tables, shutdown) = (SharedTables::default(), CancellationToken::new());
    let threads = ProxyThreads::start(&Proxy::new(tables.clone(), None, None, shutdown.clone())).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let socket = listener.local_addr().unwrap();
    let (tls, until) = (SocketTls::new(socket, tables), shutdown.clone());
    let drain = Duration::from_mins(5);
    let server = tokio::spawn(async move { threads.serve(listener, Some(tls), drain, until).await });
    let _silent = TcpStream::connect(socket).await.unwrap();
    // Connections are accepted in their order, so the silent one is, too.
    let mut other = TcpStream::connect(socket).await.unwrap();
    other.write_all(b"no TLS").await.unwrap();
    let _ = other.read_to_end(&mut Vec::new()).await;
    shutdown.cancel();
    tokio::time::timeout(Duration::from_secs(20), server).await.expect("it waits for no handshake").unwrap();
}
