//! Requests to a back end that is scaled to zero.

use std::time::Duration;

use longboat_extproc::{
    Action, Event, ImmediateResponse, Incoming as Message, Outbox, Processor, ProcessorExchange,
    ServerOptions,
};
use longboat_key::{Key, Name, Namespace};
use parking_lot::Mutex;

use super::{
    traffic::{Bench, gateway, route, tables},
    *,
};
use crate::{
    QueueSample, ScaleTarget,
    proxy::{Activator, QueueLimits},
};

const QUEUE_SIZE: &str = "llm_d_epp_flow_control_queue_size";

/// A Service `svc` whose Deployment `d` a ScaledObject scales.
fn objects(port: u16, endpoint: Option<SocketAddr>, least: i32) -> Vec<Value> {
    let listener = json!([{"name": "http", "port": port, "protocol": "HTTP"}]);
    let [mut back_end, slice] = service("svc", endpoint.unwrap_or("127.0.0.1:1".parse().unwrap()), None);
    back_end["spec"]["selector"] = json!({"app": "x"});
    let mut objects = vec![
        gateway(&listener),
        route("r", &json!({"backendRefs": [{"name": "svc", "port": 80}]})),
        back_end,
        json!({"kind": "Deployment", "metadata": {"name": "d"},
            "spec": {"selector": {}, "template": {"metadata": {"labels": {"app": "x"}}}}}),
        json!({"kind": "ScaledObject", "metadata": {"name": "s"},
            "spec": {"scaleTargetRef": {"name": "d"}, "minReplicaCount": least, "triggers": []}}),
    ];
    objects.extend(endpoint.map(|_| slice));
    objects
}

/// A gateway with these limits and no endpoint.
async fn idle(limits: QueueLimits) -> Bench {
    Bench::start_with(false, |port| objects(port, None, 0), limits).await
}

fn limits() -> QueueLimits {
    QueueLimits::default()
}

fn size(samples: &[QueueSample]) -> Vec<(Option<&str>, usize)> {
    let model = |sample: &'_ QueueSample| sample.labels.iter().position(|(name, _)| *name == "model_name");
    let sizes = samples.iter().filter(|sample| sample.name == QUEUE_SIZE);
    sizes.map(|sample| (model(sample).map(|at| sample.labels[at].1.as_str()), sample.value)).collect()
}

/// Waits until as many requests as this wait.
async fn until(activator: &Activator, expected: &[(Option<&str>, usize)]) {
    for _ in 0..2000 {
        if size(&activator.samples()) == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{:?} wait, and not {expected:?}", activator.samples());
}

fn post(bench: &Bench, model: &str) -> reqwest::RequestBuilder {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    client.post(format!("http://{}/v1/completions", bench.socket)).body(json!({"model": model}).to_string())
}

#[tokio::test]
async fn a_request_waits_until_the_first_endpoint_answers_it() {
    let bench = idle(limits()).await;
    until(&bench.activator, &[(None, 0)]).await;
    let first = tokio::spawn(post(&bench, "m").send());
    let second = tokio::spawn(post(&bench, "m").send());
    until(&bench.activator, &[(Some("m"), 2)]).await;
    let target = |name| ScaleTarget { kind: "Deployment".into(), key: Key::new(Namespace("ns"), Name(name)) };
    assert_eq!(size(&bench.activator.samples_for(&target("d"))), [(Some("m"), 2)]);
    assert_eq!(size(&bench.activator.samples_for(&target("other"))), []);

    // A change that brings no endpoint wakes nobody.
    tables(bench.socket, objects(bench.socket.port(), None, 0)).replace(&bench.tables);
    until(&bench.activator, &[(Some("m"), 2)]).await;
    // A client that goes away leaves the queue.
    second.abort();
    until(&bench.activator, &[(Some("m"), 1)]).await;

    let endpoint = traffic::back_end().await;
    // The back end fails its first two requests below this path only.
    tables(bench.socket, objects(bench.socket.port(), Some(endpoint), 0)).replace(&bench.tables);
    let answer = first.await.unwrap().unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.text().await.unwrap(), "HTTP/1.1 /v1/completions");
    until(&bench.activator, &[(None, 0)]).await;
}

/// A picker without endpoints, which notes the requests that it sees: their path, whether they have a key, and their body.
#[derive(Clone, Default)]
struct EmptyPicker {
    seen: Arc<Mutex<Vec<String>>>,
    head: String,
}

impl Processor for EmptyPicker {
    type Exchange = Self;

    fn open(&self) -> Self {
        self.clone()
    }
}

impl ProcessorExchange for EmptyPicker {
    fn handle(&mut self, incoming: Message, out: &mut Outbox) {
        match incoming.event {
            Event::RequestHeaders { headers, .. } => {
                let has_key = headers.get("authorization").is_some();
                self.head = format!("{} {has_key} ", headers.get(":path").unwrap());
            }
            Event::RequestBody { body, end_of_stream } => {
                self.head += std::str::from_utf8(&body).unwrap();
                if end_of_stream {
                    self.seen.lock().push(std::mem::take(&mut self.head));
                    let immediate = ImmediateResponse { status: 503, ..ImmediateResponse::default() };
                    out.push(Action::Immediate(immediate));
                }
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn the_picker_sees_a_request_that_waits() {
    longboat_tls::install_default_provider();
    let picker = EmptyPicker::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let pair =
        longboat_tls::self_signed(&longboat_tls::LeafRequest { days: 1, ..Default::default() }).unwrap();
    let tls = Some(longboat_tls::server_config(&pair, &[b"h2"]).unwrap());
    let options = ServerOptions { tls, ..ServerOptions::default() };
    let ends = tokio_util::sync::CancellationToken::new();
    tokio::spawn(longboat_extproc::serve(listener, Arc::new(picker.clone()), options, ends.clone()));
    let bench = Bench::start(false, |port| {
        let mut objects = objects(port, None, 0);
        let pool = json!({"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "pool"});
        let rewrite = json!({"type": "ReplacePrefixMatch", "replacePrefixMatch": "/v1"});
        objects[1] = route(
            "r",
            &json!({
                "matches": [{"path": {"type": "PathPrefix", "value": "/ns/v1"}}],
                "filters": [{"type": "URLRewrite", "urlRewrite": {"path": rewrite}}],
                "backendRefs": [pool],
            }),
        );
        objects.push(json!({"kind": "InferencePool", "metadata": {"name": "pool"}, "spec": {
            "selector": {"matchLabels": {"app": "x"}}, "targetPorts": [{"number": 8000}],
            "endpointPickerRef": {"name": "epp", "port": {"number": 80}},
        }}));
        objects.extend(service("epp", address, None));
        objects
    })
    .await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client.post(format!("http://{}/ns/v1/completions", bench.socket));
    let waiting =
        tokio::spawn(request.header("authorization", "Bearer secret").body(r#"{"model":"m"}"#).send());
    for _ in 0..2000 {
        if !picker.seen.lock().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(*picker.seen.lock(), [r#"/v1/completions false {"model":"m"}"#]);
    // It still waits, whatever the picker says.
    until(&bench.activator, &[(Some("m"), 1)]).await;
    waiting.abort();
    until(&bench.activator, &[(None, 0)]).await;
    ends.cancel();
}

#[tokio::test]
async fn number_bytes_and_time_of_waiting_requests_are_bounded() {
    let refused =
        |answer: reqwest::Response| (answer.status().as_u16(), answer.headers().get("retry-after").is_some());
    let bench = idle(QueueLimits { requests_per_backend: 1, ..limits() }).await;
    let first = tokio::spawn(post(&bench, "m").send());
    until(&bench.activator, &[(Some("m"), 1)]).await;
    assert_eq!(refused(post(&bench, "m").send().await.unwrap()), (503, true));
    bench.shutdown.cancel();
    assert_eq!(refused(first.await.unwrap().unwrap()), (503, true), "the gateway ends");

    let bench = idle(QueueLimits { bytes: 8, ..limits() }).await;
    assert_eq!(refused(post(&bench, "m").send().await.unwrap()), (503, true));
    until(&bench.activator, &[(None, 0)]).await;

    let bench = idle(QueueLimits { time: Duration::from_millis(50), ..limits() }).await;
    assert_eq!(refused(post(&bench, "m").send().await.unwrap()), (503, true));
    until(&bench.activator, &[(None, 0)]).await;
}

#[tokio::test]
async fn where_nothing_scales_from_zero_nobody_waits() {
    let bench = Bench::start(false, |port| objects(port, None, 1)).await;
    assert_eq!(bench.activator.samples(), []);
    let answer = post(&bench, "m").send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.headers().get("retry-after")), (503, None));
}
