//! An embedded API server with a platform's objects.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::{
    Metadata,
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Namespace},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use longboat_api::{conversion, foreign::httproute::HTTPRoute, v1alpha2::GROUP};
use longboat_apiserver::{ApiServer, Options, admission::Admission};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::Awaited;

/// Namespace of the platform.
const SYSTEM: &str = "kserve";
/// How long a test waits for something that should take milliseconds: the machine may be busy with other tests.
const WAIT_TIMEOUT: Duration = Duration::from_mins(3);
/// The interval between two checks.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// An API server in this process. The CRDs, the platform's settings and its default Gateway are installed, and garbage
/// collection runs. The test itself installs presets and starts controllers.
pub struct TestCluster {
    /// The server.
    pub server: ApiServer,
    stop: CancellationToken,
}

// === impl TestCluster ===

impl TestCluster {
    /// Creates a world with every optional API.
    pub async fn new(admission: Arc<dyn Admission>) -> Self {
        let world = Self::bare(admission).await;
        for crd in longboat_api::crd::foreign().into_iter().chain(longboat_api::crd::optional()) {
            world.install_crd(crd).await;
        }
        world
            .apply(json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
                "metadata": {"name": "test"},
                "spec": {"controllerName": "longboat.dev/test"},
            }))
            .await;
        world
            .apply(json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
                "metadata": {"name": "kserve-ingress-gateway", "namespace": SYSTEM},
                "spec": {
                    "gatewayClassName": "test",
                    "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}],
                },
            }))
            .await;
        world
    }

    /// Creates a world with only the platform's namespace. Admission only calls webhooks.
    pub async fn empty() -> Self {
        // Shows logs if a test is debugged with RUST_LOG. Only the first world of a process can set this.
        let _ = tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_test_writer()
            .try_init();
        let server = ApiServer::new(Options::default()).expect("a server in memory has nothing to read");
        let stop = CancellationToken::new();
        let loops = server.clone();
        let ends = stop.clone();
        tokio::spawn(async move { loops.run_loops(ends).await });
        let world = Self { server, stop };
        world.namespace(SYSTEM).await;
        world
    }

    /// Creates a world with only Longboat's own CRDs and the platform's settings. Admission and conversion run in the
    /// server's process.
    pub async fn bare(admission: Arc<dyn Admission>) -> Self {
        let world = Self::empty().await;
        world.server.add_admission(admission);
        world.server.convert_with(GROUP, |object, version| {
            conversion::convert_to(object, version).map_err(|error| error.to_string())
        });
        world.install_platform().await;
        world
    }

    /// Installs Longboat's own CRDs and the platform's settings.
    pub async fn install_platform(&self) {
        for crd in longboat_api::crd::own() {
            self.install_crd(crd).await;
        }
        let data = BTreeMap::from([
            (
                "ingress".to_owned(),
                json!({"kserveIngressGateway": "kserve/kserve-ingress-gateway", "ingressGateway": "kserve/x"}).to_string(),
            ),
            (
                "storageInitializer".to_owned(),
                json!({
                    "image": "kserve/storage-initializer:latest",
                    "cpuRequest": "100m", "cpuLimit": "1", "memoryRequest": "100Mi", "memoryLimit": "1Gi",
                })
                .to_string(),
            ),
        ]);
        let settings = ConfigMap {
            metadata: ObjectMeta {
                name: Some("inferenceservice-config".to_owned()),
                namespace: Some(SYSTEM.to_owned()),
                ..ObjectMeta::default()
            },
            data: Some(data),
            ..ConfigMap::default()
        };
        self.apply(serde_json::to_value(settings).expect("a ConfigMap prints")).await;
    }

    /// Returns a client with all rights.
    pub fn client(&self) -> Client {
        self.server.client("default")
    }

    /// Installs a CRD.
    pub async fn install_crd(&self, crd: Value) {
        // Not typed: deserializing a schema into types takes more stack than a test's thread has.
        self.apply(crd).await;
    }

    /// Creates a namespace with its `default` service account.
    pub async fn namespace(&self, name: &str) {
        let namespace = Namespace {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            ..Namespace::default()
        };
        self.apply(serde_json::to_value(namespace).expect("a Namespace prints")).await;
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name},
        });
        self.apply(account).await;
    }

    /// Applies an object by server-side apply. Panics if the server refuses it.
    pub async fn apply(&self, object: Value) -> DynamicObject {
        self.try_apply(object).await.unwrap_or_else(|error| panic!("refused: {error}"))
    }

    /// Applies an object by server-side apply.
    pub async fn try_apply(&self, object: Value) -> Result<DynamicObject, kube::Error> {
        let name = object["metadata"]["name"].as_str().expect("the object has a name").to_owned();
        let api = self.api_of(&object);
        api.patch(&name, &PatchParams::apply("test").force(), &Patch::Apply(object)).await
    }

    fn api_of(&self, object: &Value) -> Api<DynamicObject> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = text("/apiVersion").split_once('/').unwrap_or(("", text("/apiVersion")));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("/kind")));
        match text("/metadata/namespace") {
            "" => Api::all_with(self.client(), &resource),
            namespace => Api::namespaced_with(self.client(), namespace, &resource),
        }
    }

    /// Waits until a condition returns a value. Panics with the description if it does not.
    pub async fn eventually<A: Awaited>(&self, what: &str, condition: impl AsyncFn() -> A) -> A::Value {
        self.try_eventually(condition).await.unwrap_or_else(|| panic!("waited in vain: {what}"))
    }

    /// Waits until a condition returns a value. Returns `None` if it does not.
    pub async fn try_eventually<A: Awaited>(&self, condition: impl AsyncFn() -> A) -> Option<A::Value> {
        let deadline = tokio::time::Instant::now() + WAIT_TIMEOUT;
        while tokio::time::Instant::now() < deadline {
            if let Some(value) = condition().await.value() {
                return Some(value);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        None
    }

    /// Waits until nothing has been written for a while.
    pub async fn settle(&self, quiet: Duration) {
        let mut revision = self.server.revision();
        let mut since = tokio::time::Instant::now();
        let deadline = since + WAIT_TIMEOUT;
        while since.elapsed() < quiet {
            tokio::time::sleep(POLL_INTERVAL).await;
            let now = self.server.revision();
            if now != revision {
                revision = now;
                since = tokio::time::Instant::now();
            }
            assert!(tokio::time::Instant::now() < deadline, "the world does not come to rest");
        }
    }

    /// Returns the names of the objects of a kind in a namespace.
    pub async fn names<K>(&self, namespace: &str) -> Vec<String>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client(), namespace);
        let list = api.list(&ListParams::default()).await.expect("the kind can be listed");
        list.items.iter().map(ResourceExt::name_any).collect()
    }

    /// Sets the status of every Deployment in a namespace to available, as its controller would.
    pub async fn make_available(&self, namespace: &str) {
        let api: Api<Deployment> = Api::namespaced(self.client(), namespace);
        for deployment in api.list(&ListParams::default()).await.expect("Deployments can be listed") {
            let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
            let status = json!({"status": {
                "observedGeneration": deployment.metadata().generation,
                "replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas, "updatedReplicas": replicas,
                "conditions": [
                    {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
                    {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
                ],
            }});
            let name = deployment.name_any();
            api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
                .await
                .expect("a status can be written");
        }
    }

    /// Sets the status of every HTTPRoute in a namespace to accepted by its Gateways.
    pub async fn accept_routes(&self, namespace: &str) {
        let api: Api<HTTPRoute> = Api::namespaced(self.client(), namespace);
        for route in api.list(&ListParams::default()).await.expect("HTTPRoutes can be listed") {
            let condition = |type_: &str| {
                json!({
                    "type": type_, "status": "True", "reason": type_, "message": "",
                    "observedGeneration": route.metadata.generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
                })
            };
            let parents: Vec<Value> = route
                .spec
                .parent_refs
                .iter()
                .map(|parent| {
                    json!({
                        "parentRef": parent, "controllerName": "longboat.dev/test",
                        "conditions": [condition("Accepted"), condition("ResolvedRefs")],
                    })
                })
                .collect();
            api.patch_status(
                &route.name_any(),
                &PatchParams::default(),
                &Patch::Merge(json!({"status": {"parents": parents}})),
            )
            .await
            .expect("a status can be written");
        }
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
