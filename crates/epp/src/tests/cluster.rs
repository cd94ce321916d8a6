//! The picker against the embedded API server: both generations of pools, and leader election.

use kube::{
    Client,
    api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use longboat_apiserver::{ApiServer, Loops, Options};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::service::start;

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
        tokio::spawn(async move { loops.run_loops(Loops::default(), ends).await });
        let cluster = Self { client: server.client(NAMESPACE), _stop: stop.drop_guard() };
        cluster
            .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))
            .await;
        for crd in longboat_api::crd::foreign() {
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
    // Asked for in the group where it is not, it is found all the same, and a pool that comes there takes over.
    let flags = ["--pool-name=mine", "--pool-namespace", NAMESPACE];
    let picker = start(&flags, Some(cluster.client.clone())).await;
    picker.ready().await;
    picker.until("127.0.0.1:8001").await;
    cluster.create(pool("mine")).await;
    picker.until("127.0.0.1:8000").await;
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
