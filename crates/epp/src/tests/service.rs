//! The whole picker over real sockets, with file discovery and with a fake Kubernetes API.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use longboat_extproc::{Action, Client, ClientError, Event, Exchange, Reply, names};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::mpsc,
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use super::{arguments, support};
use crate::{Error, Server};

const TEST_TIMEOUT: Duration = Duration::from_secs(10);
const BODY: &[u8] = br#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;

pub(super) struct PickerFixture {
    pub(super) client: Client,
    grpc: SocketAddr,
    health: SocketAddr,
    metrics: SocketAddr,
    stop: DropGuard,
    serving: JoinHandle<Result<(), Error>>,
}

pub(super) async fn start(arguments: &[&str], kubernetes: Option<kube::Client>) -> PickerFixture {
    longboat_tls::install_default_provider();
    let mut all = vec!["--grpc-port=0", "--grpc-health-port=0", "--metrics-port=0"];
    all.extend_from_slice(arguments);
    let mut args = arguments::parse(&all).unwrap();
    args.bind_address = "127.0.0.1".to_owned();
    let secure = args.secure_serving;
    let server = Server::bind(args).await.unwrap();
    let (grpc, health, metrics) = (server.grpc_address, server.health_address, server.metrics_address);
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone().drop_guard();
    let serving = tokio::spawn(server.run(kubernetes, shutdown));
    let tls = secure.then(|| longboat_tls::insecure_client_config(&[b"h2"]));
    PickerFixture { client: Client::new(grpc, tls), grpc, health, metrics, stop, serving }
}

impl PickerFixture {
    /// Whether a health check says that it serves.
    pub(super) async fn serves(&self, service: &str) -> bool {
        serves(self.health, service).await.unwrap()
    }

    pub(super) async fn ready(&self) {
        let all = async {
            while !self.serves("readiness").await {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(TEST_TIMEOUT, all).await.unwrap();
    }

    /// Sends a request and returns where it should go.
    async fn pick(&self) -> String {
        let mut exchange = self.client.open().await.unwrap();
        self.request(&mut exchange).await
    }

    async fn request(&self, exchange: &mut Exchange) -> String {
        exchange
            .send(Event::RequestHeaders {
                headers: support::request_headers("POST", "/v1/chat/completions", &[]),
                end_of_stream: false,
            })
            .await
            .unwrap();
        exchange
            .send(Event::RequestBody { body: Bytes::from_static(BODY), end_of_stream: true })
            .await
            .unwrap();
        let reply = next(exchange).await;
        let destination = match &reply.action {
            Action::RequestHeaders(changes) => changes.get(names::DESTINATION).unwrap().to_owned(),
            Action::Immediate(answer) => return answer.status.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(reply.metadata.destination(), Some(destination.as_str()));
        let reply = next(exchange).await;
        assert_eq!(reply.action, Action::RequestBody { body: Bytes::from_static(BODY), end_of_stream: true });
        destination
    }
}

#[tokio::test]
async fn a_task_that_panics_ends_the_picker_as_its_state_no_longer_changes() {
    longboat_tls::install_default_provider();
    let config = with_file("/nowhere".as_ref());
    let ports = ["--grpc-port=0", "--grpc-health-port=0", "--metrics-port=0", "--config-text", &config];
    let mut args = arguments::parse(&ports).unwrap();
    args.bind_address = "127.0.0.1".to_owned();
    let mut tasks = JoinSet::new();
    tasks.spawn(async { panic!("on purpose") });
    let server = Server::bind(args).await.unwrap();
    let ended = timeout(TEST_TIMEOUT, server.run_with(None, CancellationToken::new(), tasks)).await.unwrap();
    assert!(matches!(ended, Err(Error::Task(_))), "{ended:?}");
}

async fn next(exchange: &mut Exchange) -> Reply {
    timeout(TEST_TIMEOUT, exchange.receive()).await.unwrap().unwrap().unwrap()
}

/// A model server that only has a metrics page.
struct ModelServer {
    address: SocketAddr,
    page: Arc<Mutex<String>>,
    connections: Arc<AtomicUsize>,
    scrapes: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn model_server(waiting: u32) -> ModelServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let page = Arc::new(Mutex::new(metrics_page(waiting)));
    let (connections, scrapes) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (content, opened, count) = (Arc::clone(&page), Arc::clone(&connections), Arc::clone(&scrapes));
    let task = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            opened.fetch_add(1, Ordering::SeqCst);
            let (content, count) = (Arc::clone(&content), Arc::clone(&count));
            tokio::spawn(async move {
                let service = service_fn(|request: http::Request<hyper::body::Incoming>| {
                    assert_eq!(request.uri().path(), "/metrics");
                    count.fetch_add(1, Ordering::SeqCst);
                    let page = content.lock().clone();
                    async move { Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from(page)))) }
                });
                let connection = hyper::server::conn::http1::Builder::new();
                let _ = connection.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    ModelServer { address, page, connections, scrapes, task }
}

fn metrics_page(waiting: u32) -> String {
    format!("vllm:num_requests_waiting{{model_name=\"m\"}} {waiting}\nvllm:kv_cache_usage_perc 0.1\n")
}

const QUEUE_ONLY: &str = "
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
";

fn with_file(path: &std::path::Path) -> String {
    format!(
        "{QUEUE_ONLY}- type: file-discovery\n  parameters: {{path: '{}'}}\ndataLayer: {{discovery: {{pluginRef: file-discovery}}}}\n",
        path.display()
    )
}

fn endpoints_file(servers: &[(&str, SocketAddr)]) -> String {
    use std::fmt::Write as _;
    servers.iter().fold("endpoints:\n".to_owned(), |mut text, (name, address)| {
        writeln!(text, "- {{name: {name}, address: {}, port: {}}}", address.ip(), address.port()).unwrap();
        text
    })
}

#[tokio::test]
async fn requests_follow_scraped_load_over_tls() {
    let (first, second) = (model_server(9).await, model_server(1).await);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("endpoints.yaml");
    std::fs::write(&file, endpoints_file(&[("one", first.address), ("two", second.address)])).unwrap();
    let picker = start(&["--config-text", &with_file(&file)], None).await;
    picker.ready().await;
    wait_until(|| first.scrapes.load(Ordering::SeqCst) > 1 && second.scrapes.load(Ordering::SeqCst) > 1)
        .await;
    assert_eq!(picker.pick().await, second.address.to_string());
    // The load changes, and requests go to the other server.
    *first.page.lock() = metrics_page(0);
    let seen = first.scrapes.load(Ordering::SeqCst);
    wait_until(|| first.scrapes.load(Ordering::SeqCst) > seen + 1).await;
    assert_eq!(picker.pick().await, first.address.to_string());
    assert_eq!(
        (first.connections.load(Ordering::SeqCst), second.connections.load(Ordering::SeqCst)),
        (1, 1),
        "connections are kept"
    );
}

async fn wait_until(condition: impl Fn() -> bool) {
    timeout(TEST_TIMEOUT, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn with_a_file_it_drains_for_as_long_as_it_was_told_and_says_what_plugins_remember() {
    let server = model_server(0).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("endpoints.yaml");
    std::fs::write(&file, endpoints_file(&[("one", server.address)])).unwrap();
    let config = format!(
        "{}schedulingProfiles: [{{name: default, plugins: [{{pluginRef: prefix-cache-scorer}}]}}]\n",
        with_file(&file).replace("- type: queue-scorer", "- type: prefix-cache-scorer")
    );
    let flags = ["--secure-serving=false", "--drain-timeout=1s", "--config-text", &config];
    let picker = start(&flags, None).await;
    picker.ready().await;
    assert_eq!(picker.pick().await, server.address.to_string());
    let state = get(picker.metrics, "/debug/plugins/state").await;
    let state: Value = serde_json::from_str(&state).unwrap();
    let blocks = &state["plugins"]["approx-prefix-cache-producer"];
    assert_eq!((&blocks["blocks"]["default/one"], &blocks["totalBlocks"]), (&json!(1), &json!(1)), "{state}");

    let PickerFixture { client, stop, serving, health, .. } = picker;
    drop(stop);
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{health}")).unwrap();
    let mut checks = HealthClient::new(channel.connect().await.unwrap());
    timeout(TEST_TIMEOUT, async {
        let asked = || HealthCheckRequest { service: "readiness".to_owned() };
        while checks.check(asked()).await.unwrap().into_inner().status == 1 {}
    })
    .await
    .unwrap();
    // The picker reports that it is stopping, and keeps serving.
    let mut exchange = client.open().await.unwrap();
    exchange
        .send(Event::RequestHeaders {
            headers: support::request_headers("GET", "/", &[]),
            end_of_stream: true,
        })
        .await
        .unwrap();
    assert!(matches!(next(&mut exchange).await.action, Action::RequestHeaders(_)));
    drop((exchange, client));
    timeout(TEST_TIMEOUT, serving).await.unwrap().unwrap().unwrap();
}

/// Whether a health check at this address says that it serves.
async fn serves(address: SocketAddr, service: &str) -> Result<bool, tonic::Status> {
    let channel =
        tonic::transport::Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await;
    let Ok(channel) = channel else { return Ok(false) };
    let request = HealthCheckRequest { service: service.to_owned() };
    Ok(HealthClient::new(channel).check(request).await?.into_inner().status == 1)
}

/// A page of the metrics port.
async fn get(address: SocketAddr, path: &str) -> String {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (mut requests, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let driver = tokio::spawn(connection);
    let request =
        http::Request::get(path).header("host", "localhost").body(Full::<Bytes>::default()).unwrap();
    let response = requests.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    drop(driver);
    String::from_utf8(body.to_vec()).unwrap()
}

#[tokio::test]
async fn the_port_of_ext_proc_answers_health_checks_if_it_is_told_to() {
    for (flag, answers) in [("--health-checking=true", true), ("--health-checking=false", false)] {
        let (kubernetes, mut api) = Api::start();
        let flags = ["--pool-name=pool", "--pool-namespace=ns", "--secure-serving=false", flag];
        let picker = start(&flags, Some(kubernetes)).await;
        let answer = serves(picker.grpc, "readiness").await.map_err(|status| status.code() as i32);
        assert_eq!(answer, if answers { Ok(false) } else { Err(12) });
        api.answer_pool(Some(&pool())).await;
        api.answer_pods(&[]).await;
        picker.ready().await;
        assert_eq!(serves(picker.grpc, "readiness").await.ok(), answers.then_some(true));
        let mut exchange = picker.client.open().await.unwrap();
        assert_eq!(picker.request(&mut exchange).await, "503", "ext_proc is on the same port");
        picker.stop().await;
    }
}

#[tokio::test]
async fn it_is_not_ready_before_the_pool_is_known_and_not_while_it_drains() {
    let (kubernetes, mut api) = Api::start();
    let picker = start(&["--pool-name=pool", "--pool-namespace=ns"], Some(kubernetes)).await;
    assert!(!picker.serves("readiness").await && !picker.serves("liveness").await);
    api.answer_pool(Some(&pool())).await;
    assert!(!picker.serves("").await, "pods are not listed yet");
    api.answer_pods(&[]).await;
    picker.ready().await;
    assert!(picker.serves("any name at all").await);
    // The port of health checks has no TLS, and no ext_proc.
    let refused = async {
        let mut exchange = Client::new(picker.health, None).open().await?;
        exchange.send(Event::RequestBody { body: Bytes::new(), end_of_stream: true }).await?;
        exchange.receive().await
    };
    let refused = refused.await;
    assert!(matches!(refused, Err(ClientError::Status { code: 12, .. })), "{refused:?}");
    // A stream in flight may end in its own time. New streams should go elsewhere.
    let mut exchange = picker.client.open().await.unwrap();
    assert_eq!(picker.request(&mut exchange).await, "503");
    picker.stop().await;
}

fn pool() -> Value {
    json!({
        "apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool",
        "metadata": {"name": "pool", "namespace": "ns", "uid": "1", "resourceVersion": "5"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "targetPorts": [{"number": 8000}]},
    })
}

fn pod(name: &str, ip: &str, ready: bool) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "6", "labels": {"app": "x"}},
        "status": {"podIP": ip, "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
    })
}

#[tokio::test]
async fn pods_of_the_pool_become_endpoints_as_they_come_and_go() {
    let (kubernetes, mut api) = Api::start();
    let picker =
        start(&["--pool-name=pool", "--pool-namespace=ns", "--secure-serving=false"], Some(kubernetes)).await;
    api.answer_pool(Some(&pool())).await;
    api.answer_pods(&[pod("a", "127.0.0.1", true), pod("b", "127.0.0.2", false)]).await;
    picker.ready().await;
    assert_eq!(picker.pick().await, "127.0.0.1:8000");
    api.pod_event("MODIFIED", &pod("b", "127.0.0.2", true)).await;
    api.pod_event("MODIFIED", &pod("a", "127.0.0.1", false)).await;
    picker.until("127.0.0.2:8000").await;
    api.pod_event("DELETED", &pod("b", "127.0.0.2", true)).await;
    picker.until("503").await;
    assert!(picker.serves("").await, "an empty pool is known all the same");
    api.pool_event("DELETED", &pool()).await;
    timeout(TEST_TIMEOUT, async { while picker.serves("").await {} }).await.unwrap();
}

impl PickerFixture {
    /// Asks it to stop, and waits.
    pub(super) async fn stop(self) {
        drop(self.stop);
        timeout(TEST_TIMEOUT, self.serving).await.unwrap().unwrap().unwrap();
    }

    pub(super) async fn until(&self, destination: &str) {
        timeout(TEST_TIMEOUT, async {
            while self.pick().await != destination {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("never {destination}"));
    }
}

#[tokio::test]
async fn metrics_are_served() {
    let (kubernetes, mut api) = Api::start();
    let picker = start(&["--pool-name=pool"], Some(kubernetes)).await;
    api.answer_pool(Some(&pool())).await;
    api.answer_pods(&[pod("a", "127.0.0.1", true)]).await;
    picker.ready().await;
    picker.pick().await;
    let page = get(picker.metrics, "/metrics").await;
    assert!(page.contains("inference_objective_request_total{model_name=\"m\""), "{page}");
}

/// A fake API server for the lists and watches of the picker.
struct Api {
    asked: mpsc::Receiver<PendingRequest>,
    waiting: Vec<PendingRequest>,
    pool_watch: Option<mpsc::Sender<Bytes>>,
    pod_watch: Option<mpsc::Sender<Bytes>>,
}

struct PendingRequest {
    path: String,
    watch: bool,
    answer: tokio::sync::oneshot::Sender<http::Response<UnsyncBoxBody<Bytes, Infallible>>>,
}

impl Api {
    fn start() -> (kube::Client, Self) {
        let (questions, asked) = mpsc::channel::<PendingRequest>(4);
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let questions = questions.clone();
            async move {
                if request.uri().path().contains("x-k8s.io") {
                    // This cluster has pools in one group only.
                    let status = br#"{"kind":"Status","status":"Failure","reason":"NotFound","code":404}"#;
                    let missing = http::Response::builder().status(404);
                    return Ok(missing.body(Full::from(&status[..]).boxed_unsync()).unwrap());
                }
                let (answer, answered) = tokio::sync::oneshot::channel();
                let question = PendingRequest {
                    path: request.uri().path().to_owned(),
                    watch: request.uri().query().is_some_and(|query| query.contains("watch=true")),
                    answer,
                };
                questions.send(question).await.map_err(|_| "the test is over")?;
                answered.await.map_err(|_| "not answered")
            }
        });
        let api = Self { asked, waiting: Vec::new(), pool_watch: None, pod_watch: None };
        (kube::Client::new(service, "ns"), api)
    }

    /// Returns the next request of this kind. Other requests that come first are kept.
    async fn question(&mut self, kind: &str, watch: bool) -> PendingRequest {
        loop {
            let waiting =
                self.waiting.iter().position(|asked| asked.path.ends_with(kind) && asked.watch == watch);
            if let Some(index) = waiting {
                return self.waiting.remove(index);
            }
            let asked = timeout(TEST_TIMEOUT, self.asked.recv()).await.unwrap().unwrap();
            self.waiting.push(asked);
        }
    }

    async fn answer(&mut self, kind: &str, items: &[Value]) -> mpsc::Sender<Bytes> {
        let list = json!({
            "apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "7"}, "items": items,
        });
        let listing = self.question(kind, false).await;
        let body = Full::from(serde_json::to_vec(&list).unwrap()).boxed_unsync();
        assert!(listing.answer.send(http::Response::new(body)).is_ok());
        let watching = self.question(kind, true).await;
        let (events, lines) = mpsc::channel::<Bytes>(4);
        let frames = futures::stream::unfold(lines, |mut lines| async {
            let line = lines.recv().await?;
            Some((Ok::<_, Infallible>(hyper::body::Frame::data(line)), lines))
        });
        let body = StreamBody::new(frames).boxed_unsync();
        assert!(watching.answer.send(http::Response::new(body)).is_ok());
        events
    }

    async fn answer_pool(&mut self, pool: Option<&Value>) {
        let pools: Vec<Value> = pool.cloned().into_iter().collect();
        self.pool_watch = Some(self.answer("/inferencepools", &pools).await);
    }

    async fn answer_pods(&mut self, pods: &[Value]) {
        self.pod_watch = Some(self.answer("/pods", pods).await);
    }

    async fn pod_event(&self, kind: &str, object: &Value) {
        send(self.pod_watch.as_ref().unwrap(), kind, object).await;
    }

    async fn pool_event(&self, kind: &str, object: &Value) {
        send(self.pool_watch.as_ref().unwrap(), kind, object).await;
    }
}

async fn send(events: &mpsc::Sender<Bytes>, kind: &str, object: &Value) {
    // The type comes first, as API servers write it.
    let line = format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n");
    events.send(Bytes::from(line)).await.unwrap();
}
