//! Proof requests: how many are sent, and that none of them blocks anything.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use kube::api::{Patch, PatchParams};
use longboat_api::conditions::ConditionStatus;
use longboat_testkit::TestCluster;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::setup::{QUIET, Running, condition, deployments, service, services, world};

/// How a gateway responds to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// With a token.
    Answer,
    /// It accepts the request, and does not respond.
    Hang,
    /// With an endless response.
    Flood,
}

/// A gateway, with the number of its requests.
struct Gateway {
    does: Arc<Mutex<Does>>,
    asked: Arc<AtomicUsize>,
}

impl Gateway {
    async fn start(world: &TestCluster, does: Does) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let gateway = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": {"name": "gw", "namespace": "ns"},
            "spec": {"gatewayClassName": "test", "listeners": [{"name": "http", "port": port, "protocol": "HTTP"}]},
        });
        world.apply(gateway).await;
        let condition = |type_: &str| {
            json!({
                "type": type_, "status": "True", "reason": type_, "message": "", "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let status = json!({"status": {
            "addresses": [{"type": "IPAddress", "value": "127.0.0.1"}],
            "conditions": [condition("Accepted"), condition("Programmed")],
        }});
        let api: kube::Api<longboat_api::foreign::gateway::Gateway> =
            kube::Api::namespaced(world.client(), "ns");
        api.patch_status("gw", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        let this = Self { does: Arc::new(Mutex::new(does)), asked: Arc::default() };
        let (does, asked) = (this.does.clone(), this.asked.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (does, asked) = (does.clone(), asked.clone());
                tokio::spawn(async move { answer(stream, &does, &asked).await });
            }
        });
        this
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

async fn answer(mut stream: TcpStream, does: &Mutex<Does>, asked: &AtomicUsize) {
    let mut request = Vec::new();
    let (head, body) = loop {
        let mut piece = [0; 4096];
        let length = stream.read(&mut piece).await.unwrap();
        assert_ne!(length, 0, "the request is whole");
        request.extend_from_slice(&piece[..length]);
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str::<Value>(body)
        {
            break (head.to_ascii_lowercase(), body);
        }
    };
    assert!(head.starts_with("post /ns/llm/v1/completions "), "{head}");
    for secret in ["authorization", "cookie", "x-api-key"] {
        assert!(!head.contains(secret), "{head}");
    }
    asked.fetch_add(1, Ordering::SeqCst);
    let does = *does.lock();
    match does {
        Does::Answer => {
            let usage = json!({"prompt_tokens": 3, "completion_tokens": 1});
            let said =
                json!({"model": body["model"], "choices": [{"text": "a"}], "usage": usage}).to_string();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{said}", said.len());
            let _ = stream.write_all(head.as_bytes()).await;
        }
        Does::Hang => {
            let _ = stream.read(&mut [0; 1]).await;
        }
        Does::Flood => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await;
            while stream.write_all(&[b' '; 1 << 12]).await.is_ok() {}
        }
    }
}

/// Creates a service that is ready except for the proof, and whose requests go to the gateway.
async fn prepare(world: &TestCluster) {
    let refs = json!([{"name": "gw", "namespace": "ns"}]);
    let mut object = service("llm", json!({"router": {"route": {}, "gateway": {"refs": refs}}}));
    object["metadata"]["annotations"] = json!({"longboat.dev/serving-proof": "gate"});
    world.apply(object).await;
    world
        .eventually("the service waits for its proof", async || {
            world.make_available("ns").await;
            world.accept_routes("ns").await;
            let status = services(world.client()).get("llm").await.unwrap().status?;
            let mut needed = ["WorkloadsReady", "RouterReady"].into_iter();
            let holds = |type_| status.conditions.iter().any(|found| found.type_ == type_ && found.is_true());
            needed.all(holds).then_some(())
        })
        .await;
}

async fn says(world: &TestCluster, reason: &str) -> String {
    condition(world, "llm", "ServingProven", |found| found.reason == reason).await.message
}

async fn record(world: &TestCluster) -> Option<String> {
    let status = services(world.client()).get("llm").await.unwrap().status.unwrap();
    status.annotations.get("longboat.dev/serving-proof-record").cloned()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_request_for_each_change_also_across_a_restart() {
    let world = world().await;
    let gateway = Gateway::start(&world, Does::Answer).await;
    let running = Running::start(&world);
    prepare(&world).await;
    assert!(says(&world, "TokenReceived").await.contains("answered with a token of model llm"));
    condition(&world, "llm", "Ready", |found| found.status == ConditionStatus::True).await;
    let proven = record(&world).await;
    assert!(proven.is_some());
    running.kill().await;

    // The next process knows the result from the status.
    let running = Running::start(&world);
    world.apply(service("other", json!({}))).await;
    let touched = json!({"metadata": {"annotations": {"note": "x"}}});
    services(world.client()).patch("llm", &PatchParams::default(), &Patch::Merge(touched)).await.unwrap();
    world
        .eventually("the next process works", async || {
            deployments(world.client()).get_opt("other-kserve").await.unwrap()
        })
        .await;
    world.settle(QUIET).await;
    assert_eq!((gateway.asked(), record(&world).await), (1, proven.clone()));

    // With another pod, another proof is due.
    let labels = json!({
        "app.kubernetes.io/name": "llm", "app.kubernetes.io/part-of": "llminferenceservice",
        "kserve.io/component": "workload", "llm-d.ai/role": "both",
    });
    world
        .apply(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "another", "namespace": "ns", "labels": labels},
            "spec": {"containers": [{"name": "main", "image": "x"}]},
        }))
        .await;
    let pods: kube::Api<k8s_openapi::api::core::v1::Pod> = kube::Api::namespaced(world.client(), "ns");
    let status = json!({"status": {"podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}]}});
    pods.patch_status("another", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    world.eventually("a second request", async || gateway.asked() == 2).await;
    world.eventually("its record", async || record(&world).await != proven).await;
    world.settle(QUIET).await;
    assert_eq!(gateway.asked(), 2);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_hangs_holds_neither_reconciles_nor_the_end() {
    let world = world().await;
    let gateway = Gateway::start(&world, Does::Hang).await;
    let running = Running::start(&world);
    prepare(&world).await;
    world.eventually("a request", async || gateway.asked() == 1).await;
    let pending = condition(&world, "llm", "Ready", |found| found.reason == "ProofPending").await;
    assert_eq!(pending.status, ConditionStatus::Unknown);
    let more = json!({"spec": {"replicas": 2}});
    services(world.client()).patch("llm", &PatchParams::default(), &Patch::Merge(more)).await.unwrap();
    world
        .eventually("the Deployment follows", async || {
            let deployment = deployments(world.client()).get("llm-kserve").await.unwrap();
            (deployment.spec?.replicas == Some(2)).then_some(())
        })
        .await;
    assert_eq!(gateway.asked(), 1, "what was sent is waited for");
    tokio::time::timeout(std::time::Duration::from_mins(1), running.stop()).await.expect("it ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_an_end_is_cut_and_judged() {
    let world = world().await;
    let gateway = Gateway::start(&world, Does::Flood).await;
    let running = Running::start(&world);
    prepare(&world).await;
    assert!(says(&world, "UnreadableAnswer").await.contains("the route leads to another server"));
    *gateway.does.lock() = Does::Answer;
    says(&world, "TokenReceived").await;
    running.stop().await;
}
