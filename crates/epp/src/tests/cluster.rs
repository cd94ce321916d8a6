//! The picker against the embedded API server: both generations of pools, objectives, rewrites, and leader election.

use kube::{
    Client,
    api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use longboat_apiserver::{ApiServer, Options};
use longboat_extproc::{Action, Event};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    service::{PickerFixture, start},
    support,
};

const NAMESPACE: &str = "models";

struct Cluster {
    client: Client,
    _stop: DropGuard,
}

impl Cluster {
    async fn new() -> Self {
        let server = ApiServer::new(Options::default()).unwrap();
        let stop = CancellationToken::new();
        let (loops, ends) = (server.clone(), stop.clone());
        tokio::spawn(async move { loops.run_loops(ends).await });
        let cluster = Self { client: server.client(NAMESPACE), _stop: stop.drop_guard() };
        cluster
            .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))
            .await;
        for crd in longboat_api::crd::foreign().into_iter().chain(longboat_api::crd::pickers()) {
            cluster.create(crd).await;
        }
        cluster
    }

    fn api(&self, object: &Value) -> Api<DynamicObject> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap();
        let (group, version) = text("/apiVersion").split_once('/').unwrap_or(("", text("/apiVersion")));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("/kind")));
        if object.pointer("/metadata/namespace").is_some() {
            Api::namespaced_with(self.client.clone(), NAMESPACE, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        }
    }

    async fn create(&self, object: Value) {
        let typed: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        self.api(&object).create(&PostParams::default(), &typed).await.unwrap();
    }

    async fn ready_pod(&self, name: &str, ip: &str) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": "model"}},
            "spec": {"containers": [{"name": "main", "image": "x"}]},
        });
        self.create(pod.clone()).await;
        let status = json!({"status": {"podIP": ip, "conditions": [{"type": "Ready", "status": "True"}]}});
        self.api(&pod).patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    async fn delete(&self, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap();
        self.api(object).delete(name, &kube::api::DeleteParams::default()).await.unwrap();
    }
}

fn pool(name: &str) -> Value {
    json!({
        "apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": {"app": "model"}}, "targetPorts": [{"number": 8000}],
            "endpointPickerRef": {"name": "picker", "port": {"number": 9002}},
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_comes_later_is_followed_until_it_goes() {
    let cluster = Cluster::new().await;
    cluster.create(pool("other")).await;
    let flags = ["--pool-name=mine", "--pool-namespace", NAMESPACE, ""];
    let picker = start(&flags, Some(cluster.client.clone())).await;
    assert!(!picker.serves("readiness").await, "another pool is not ours");
    cluster.create(pool("mine")).await;
    picker.ready().await;
    cluster.ready_pod("a", "127.0.0.1").await;
    picker.until("127.0.0.1:8000").await;
    cluster.delete(&pool("mine")).await;
    while picker.serves("readiness").await {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_of_the_former_group_is_followed() {
    let cluster = Cluster::new().await;
    cluster.ready_pod("a", "127.0.0.1").await;
    cluster
        .create(json!({
            "apiVersion": "inference.networking.x-k8s.io/v1alpha2", "kind": "InferencePool",
            "metadata": {"name": "mine", "namespace": NAMESPACE},
            "spec": {
                "selector": {"app": "model"}, "targetPortNumber": 8001, "extensionRef": {"name": "picker"},
            },
        }))
        .await;
    let flags =
        ["--pool-name=mine", "--pool-namespace", NAMESPACE, "--pool-group=inference.networking.x-k8s.io"];
    let picker = start(&flags, Some(cluster.client.clone())).await;
    picker.ready().await;
    picker.until("127.0.0.1:8001").await;
    // The pool is found although the flags name the other API group. A pool that is created in the named group later replaces
    // it.
    let flags = ["--pool-name=mine", "--pool-namespace", NAMESPACE];
    let picker = start(&flags, Some(cluster.client.clone())).await;
    picker.ready().await;
    picker.until("127.0.0.1:8001").await;
    cluster.create(pool("mine")).await;
    picker.until("127.0.0.1:8000").await;
}

/// A picker of the pool `mine`. Its only endpoint is never scraped, so it counts as full.
async fn picker_of_a_full_pool(cluster: &Cluster) -> PickerFixture {
    cluster.create(pool("mine")).await;
    cluster.ready_pod("a", "127.0.0.1").await;
    let flags = ["--pool-name=mine", "--pool-namespace", NAMESPACE, "--secure-serving=false"];
    let picker = start(&flags, Some(cluster.client.clone())).await;
    picker.ready().await;
    picker.until("127.0.0.1:8000").await;
    picker
}

/// Returns the model in the forwarded request, or the status of a refusal.
async fn sent(picker: &PickerFixture, model: &str, header: (&str, &str)) -> String {
    let mut exchange = picker.client.open().await.unwrap();
    let headers = support::request_headers("POST", "/v1/completions", &[header]);
    exchange.send(Event::RequestHeaders { headers, end_of_stream: false }).await.unwrap();
    let body = json!({"model": model, "prompt": "hi"}).to_string().into();
    exchange.send(Event::RequestBody { body, end_of_stream: true }).await.unwrap();
    loop {
        match exchange.receive().await.unwrap().unwrap().action {
            Action::Immediate(answer) => return answer.status.to_string(),
            Action::RequestBody { body, .. } => {
                let body: Value = serde_json::from_slice(&body).unwrap();
                return body["model"].as_str().unwrap().to_owned();
            }
            _ => {}
        }
    }
}

async fn until_sent(picker: &PickerFixture, model: &str, header: (&str, &str), expected: &str) {
    let reached = tokio::time::timeout(std::time::Duration::from_secs(20), async {
        while sent(picker, model, header).await != expected {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    });
    assert!(reached.await.is_ok(), "never {expected}");
}

fn about(group: &str, kind: &str, name: &str, pool: &str, mut spec: Value) -> Value {
    spec["poolRef"] = json!({"name": pool});
    json!({
        "apiVersion": format!("{group}/v1alpha2"), "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec,
    })
}

const GROUPS: [&str; 2] = ["llm-d.ai", "inference.networking.x-k8s.io"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objectives_of_both_groups_are_followed() {
    let cluster = Cluster::new().await;
    let picker = picker_of_a_full_pool(&cluster).await;
    let low = ("x-llm-d-inference-objective", "low");
    let other = about(GROUPS[0], "InferenceObjective", "low", "other", json!({"priority": -1}));
    cluster.create(other.clone()).await;
    assert_eq!(sent(&picker, "m", low).await, "m", "an objective of another pool");
    cluster.delete(&other).await;
    for group in GROUPS {
        let objective = about(group, "InferenceObjective", "low", "mine", json!({"priority": -1}));
        cluster.create(objective.clone()).await;
        until_sent(&picker, "m", low, "429").await;
        assert_eq!(sent(&picker, "m", ("x", "y")).await, "m", "who names no objective has priority 0");
        let patch = Patch::Merge(json!({"spec": {"priority": 1}}));
        cluster.api(&objective).patch("low", &PatchParams::default(), &patch).await.unwrap();
        until_sent(&picker, "m", low, "m").await;
        cluster.delete(&objective).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rewrites_of_both_groups_are_followed_and_change_the_body() {
    let cluster = Cluster::new().await;
    let picker = picker_of_a_full_pool(&cluster).await;
    let header = ("x-llm-d-model-name-rewrite", "by-header");
    for group in GROUPS {
        let rules = json!({"rules": [
            {"matches": [{"model": {"value": "m"}}], "targets": [{"modelRewrite": "tuned", "weight": 1}]},
        ]});
        let rewrite = about(group, "InferenceModelRewrite", "r", "mine", rules);
        cluster.create(rewrite.clone()).await;
        until_sent(&picker, "m", ("x", "y"), "tuned").await;
        assert_eq!(sent(&picker, "m", header).await, "tuned", "a rule counts more than the header");
        assert_eq!(sent(&picker, "other", header).await, "by-header");
        assert_eq!(sent(&picker, "other", ("x", "y")).await, "other");
        cluster.delete(&rewrite).await;
        until_sent(&picker, "m", ("x", "y"), "m").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_pickers_one_is_ready_and_the_other_follows_when_it_leaves() {
    let cluster = Cluster::new().await;
    cluster.create(pool("mine")).await;
    let flags = ["--pool-name=mine", "--pool-namespace", NAMESPACE, "--ha-enable-leader-election"];
    let first = start(&flags, Some(cluster.client.clone())).await;
    first.ready().await;
    let second = start(&flags, Some(cluster.client.clone())).await;
    assert!(second.serves("liveness").await, "a follower is alive");
    assert!(!second.serves("readiness").await);
    assert!(first.serves("").await);
    first.stop().await;
    second.ready().await;
}
