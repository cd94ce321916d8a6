//! A world in which services are created and deleted one after another, and observations of it.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
    core::GroupVersionKind,
};
use longboat_testkit::{Faults, TestCluster};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::topology::Topology;
use crate::setup::{Running, world};

/// Longer than any delay of the controller before it retries a request that failed a few times, and longer than any delay of
/// its watches.
const QUIET: Duration = Duration::from_secs(45);
/// The time between two checks.
const PERIOD: Duration = Duration::from_millis(500);
/// A world that still changes after this time will never be at rest.
const NEVER: Duration = Duration::from_hours(1);

/// Kinds that a service can leave in its namespace, with the API version of each.
pub(super) const KINDS: [(&str, &str); 16] = [
    ("serving.kserve.io/v1alpha2", "LLMInferenceService"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "ServiceAccount"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("resource.k8s.io/v1", "ResourceClaimTemplate"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
    ("apps/v1", "Deployment"),
    ("v1", "Service"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("keda.sh/v1alpha1", "ScaledObject"),
    ("inference.networking.k8s.io/v1", "InferencePool"),
    ("inference.networking.x-k8s.io/v1alpha2", "InferencePool"),
    ("gateway.networking.k8s.io/v1", "HTTPRoute"),
];

/// Objects by kind and name, without fields that differ between runs.
pub(super) type Picture = BTreeMap<String, Value>;

/// Creates a world with a ready Gateway, and with settings for every way to scale.
pub(super) async fn stage() -> TestCluster {
    let world = world().await;
    let settings: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(world.client(), "kserve");
    let prometheus = json!({"prometheus": {"url": "https://prometheus.example.com:9090"}}).to_string();
    let patch = json!({"data": {"autoscaling-wva-controller-config": prometheus}});
    settings.patch("inferenceservice-config", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    make_ready(&world, "kserve").await;
    world
}

/// Waits until nothing was written for some time.
pub(super) async fn settle(world: &TestCluster, what: &str) {
    let (began, mut since, mut revision) = (Instant::now(), Instant::now(), world.server.revision());
    while since.elapsed() < QUIET {
        tokio::time::sleep(PERIOD).await;
        let now = world.server.revision();
        if now != revision {
            (revision, since) = (now, Instant::now());
        }
        assert!(began.elapsed() < NEVER, "{what}: the world does not come to rest");
    }
}

pub(super) fn api(world: &TestCluster, version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    if namespace.is_empty() {
        Api::all_with(world.client(), &resource)
    } else {
        Api::namespaced_with(world.client(), namespace, &resource)
    }
}

/// Returns all objects of one kind that belong to a namespace, unchanged.
pub(super) async fn of_kind(world: &TestCluster, version: &str, kind: &str, namespace: &str) -> Vec<Value> {
    let cluster = kind == "ClusterRoleBinding";
    let api = api(world, version, kind, if cluster { "" } else { namespace });
    let listed = api.list(&ListParams::default()).await.unwrap().items;
    let ours = listed.into_iter().filter(|object| !cluster || object.name_any().starts_with(namespace));
    ours.map(|object| {
        let mut object = serde_json::to_value(object).unwrap();
        (object["apiVersion"], object["kind"]) = (version.into(), kind.into());
        object
    })
    .collect()
}

/// Returns the objects in a namespace.
pub(super) async fn picture(world: &TestCluster, namespace: &str) -> Picture {
    let mut picture = Picture::new();
    for (version, kind) in KINDS {
        for object in of_kind(world, version, kind, namespace).await {
            let name = object["metadata"]["name"].as_str().unwrap().replace(namespace, "NS");
            picture.insert(format!("{kind}.{version} {name}"), normal(object, namespace));
        }
    }
    picture
}

/// Removes fields of an object that differ between runs.
pub(super) fn normal(mut object: Value, namespace: &str) -> Value {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let fields = object.as_object_mut().unwrap();
    if kind != "LLMInferenceService" {
        fields.remove("status");
    }
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
        metadata.remove(field);
    }
    for owner in metadata.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten() {
        owner["uid"] = "UID".into();
    }
    let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
    if let Some(expiration) = annotations.and_then(|all| all.get_mut("certificates.kserve.io/expiration")) {
        *expiration = "TIME".into();
    }
    match kind.as_str() {
        "Secret" => object["data"].as_object_mut().into_iter().flat_map(Map::values_mut).for_each(|value| {
            *value = "DATA".into();
        }),
        "Service" => {
            let spec = object["spec"].as_object_mut().unwrap();
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
        "LLMInferenceService" => {
            object["status"]["observedGeneration"] = Value::Null;
            for condition in object["status"]["conditions"].as_array_mut().into_iter().flatten() {
                condition.as_object_mut().unwrap().remove("lastTransitionTime");
            }
        }
        _ => {}
    }
    serde_json::from_str(&object.to_string().replace(namespace, "NS")).unwrap()
}

/// Panics with the differences if two pictures differ.
pub(super) fn assert_same(found: &Picture, wanted: &Picture, what: &str) {
    let differences = differences(found, wanted);
    assert!(differences.is_empty(), "{what}:\n{}", differences.join("\n"));
}

/// Returns the differences between two pictures.
pub(super) fn differences(found: &Picture, wanted: &Picture) -> Vec<String> {
    let mut differences = Vec::new();
    for name in found.keys().chain(wanted.keys()).collect::<std::collections::BTreeSet<_>>() {
        match (found.get(name), wanted.get(name)) {
            (Some(found), Some(wanted)) => leaves(name, found, wanted, &mut differences),
            (Some(_), None) => differences.push(format!("{name} should not be there")),
            _ => differences.push(format!("{name} is not there")),
        }
    }
    differences
}

fn leaves(place: &str, found: &Value, wanted: &Value, differences: &mut Vec<String>) {
    match (found, wanted) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys()).collect::<std::collections::BTreeSet<_>>() {
                let value = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or_default();
                leaves(&format!("{place}.{key}"), &value(a), &value(b), differences);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                leaves(&format!("{place}[{at}]"), a, b, differences);
            }
        }
        _ if found == wanted => {}
        _ => differences.push(format!("{place}: {found} instead of {wanted}")),
    }
}

/// Makes everything in a namespace ready at once. Returns whether anything changed.
pub(super) async fn make_ready(world: &TestCluster, namespace: &str) -> bool {
    let before = world.server.revision();
    let condition = |type_: &str, status: &str, generation: &Value| {
        json!({
            "type": type_, "status": status, "reason": type_, "message": "", "observedGeneration": generation,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let plain = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": type_, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let routes = of_kind(world, "gateway.networking.k8s.io/v1", "HTTPRoute", namespace).await;
    let mut parents: Vec<Value> = routes
        .iter()
        .flat_map(|route| route["spec"]["parentRefs"].as_array().cloned().unwrap_or_default())
        .map(|parent| {
            let within = parent["namespace"].as_str().unwrap_or(namespace);
            json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": parent["name"], "namespace": within})
        })
        .collect();
    parents.sort_by_key(Value::to_string);
    parents.dedup();
    let mut patches = Vec::new();
    for (version, kind) in KINDS.into_iter().chain([("gateway.networking.k8s.io/v1", "Gateway")]) {
        for object in of_kind(world, version, kind, namespace).await {
            let generation = &object["metadata"]["generation"];
            let replicas = object["spec"]["replicas"].as_i64().unwrap_or(1);
            let status = match kind {
                "Deployment" => json!({
                    "observedGeneration": generation, "replicas": replicas, "readyReplicas": replicas,
                    "availableReplicas": replicas, "updatedReplicas": replicas,
                    "conditions": [plain("Available", "True"), plain("Progressing", "True")],
                }),
                "LeaderWorkerSet" => json!({
                    "replicas": replicas, "readyReplicas": replicas,
                    "conditions": [condition("Available", "True", generation)],
                }),
                "HorizontalPodAutoscaler" => json!({
                    "currentReplicas": 1, "desiredReplicas": 1,
                    "conditions": [plain("AbleToScale", "True"), plain("ScalingActive", "True")],
                }),
                "ScaledObject" => json!({"conditions": [plain("Ready", "True"), plain("Active", "True")]}),
                "InferencePool" if version.contains("x-k8s") => {
                    json!({"parent": parents.iter().map(|parent| json!({
                    "parentRef": parent, "conditions": [condition("Accepted", "True", generation)],
                })).collect::<Vec<_>>()})
                }
                "InferencePool" => json!({"parents": parents.iter().map(|parent| json!({
                    "parentRef": parent, "controllerName": "longboat.dev/test",
                    "conditions": [condition("Accepted", "True", generation), condition("ResolvedRefs", "True", generation)],
                })).collect::<Vec<_>>()}),
                "HTTPRoute" => {
                    json!({"parents": object["spec"]["parentRefs"].as_array().into_iter().flatten().map(|parent| json!({
                    "parentRef": parent, "controllerName": "longboat.dev/test",
                    "conditions": [condition("Accepted", "True", generation), condition("ResolvedRefs", "True", generation)],
                })).collect::<Vec<_>>()})
                }
                "Gateway" => json!({
                    "addresses": [{"type": "IPAddress", "value": "10.1.2.3"}],
                    "conditions": [condition("Accepted", "True", generation), condition("Programmed", "True", generation)],
                }),
                _ => continue,
            };
            let api = api(world, version, kind, namespace);
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            patches.push(async move {
                let patch = Patch::Merge(json!({"status": status}));
                api.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
            });
        }
    }
    join_all(patches).await;
    world.server.revision() != before
}

/// Starts a controller, and waits until it is at rest.
pub(super) async fn started(world: &TestCluster, faults: Faults) -> Running {
    let running = Running::with(world, faults);
    settle(world, "the start").await;
    running
}

/// A namespace with the services of a topology.
pub(super) struct Trial<'a> {
    pub(super) world: &'a TestCluster,
    pub(super) topology: &'a Topology,
    pub(super) namespace: String,
    /// A description for error messages.
    pub(super) what: String,
}

/// The observations of a trial.
pub(super) struct Seen {
    /// When the services were ready.
    pub(super) alive: Picture,
    /// After the services were deleted.
    pub(super) gone: Picture,
    /// The number of events, including their counts.
    pub(super) events: i64,
}

// === impl Trial ===

impl<'a> Trial<'a> {
    pub(super) fn new(
        world: &'a TestCluster,
        topology: &'a Topology,
        namespace: impl Into<String>,
        what: impl std::fmt::Display,
    ) -> Self {
        let what = format!("{}, {what}", topology.name);
        Self { world, topology, namespace: namespace.into(), what }
    }

    /// Runs the trial from the first object to the last. `running` is the controller, and is replaced if it dies.
    pub(super) async fn run(&self, running: &mut Running) -> Seen {
        self.create().await;
        self.rest(running).await;
        self.become_ready(running).await;
        let alive = self.picture().await;
        self.delete(running).await;
        let gone = self.picture().await;
        let events = self.events().await;
        self.forget().await;
        Seen { alive, gone, events }
    }

    pub(super) async fn create(&self) {
        self.world.namespace(&self.namespace).await;
        for object in self.topology.objects(&self.namespace) {
            self.world.apply(object).await;
        }
    }

    /// Waits until the world is at rest. If the controller died, starts another one.
    pub(super) async fn rest(&self, running: &mut Running) {
        settle(self.world, &self.what).await;
        let began = Instant::now();
        while running.faults.unanswered() > 0 {
            assert!(began.elapsed() < NEVER, "{}: an answer is waited for that never comes", self.what);
            tokio::time::sleep(PERIOD).await;
            settle(self.world, &self.what).await;
        }
        if running.faults.is_dead() {
            let dead = std::mem::replace(running, Running::with(self.world, Faults::default()));
            dead.kill().await;
            settle(self.world, &self.what).await;
        }
    }

    /// Makes everything ready, and waits for the effects.
    pub(super) async fn become_ready(&self, running: &mut Running) {
        for _ in 0..6 {
            if !make_ready(self.world, &self.namespace).await {
                return;
            }
            self.rest(running).await;
        }
        panic!("{}: readiness leads to ever more changes", self.what);
    }

    pub(super) async fn picture(&self) -> Picture {
        picture(self.world, &self.namespace).await
    }

    pub(super) async fn delete(&self, running: &mut Running) {
        for name in self.topology.services() {
            let api = api(self.world, "serving.kserve.io/v1alpha2", "LLMInferenceService", &self.namespace);
            api.delete(&name, &DeleteParams::default()).await.unwrap();
        }
        self.rest(running).await;
    }

    pub(super) async fn events(&self) -> i64 {
        let api: Api<Event> = Api::namespaced(self.world.client(), &self.namespace);
        let events = api.list(&ListParams::default()).await.unwrap().items;
        events.iter().map(|event| i64::from(event.count.unwrap_or(1))).sum()
    }

    /// Deletes the namespace, so that the next trial has an empty world.
    pub(super) async fn forget(&self) {
        let api: Api<Namespace> = Api::all(self.world.client());
        api.delete(&self.namespace, &DeleteParams::default()).await.unwrap();
        while api.get_opt(&self.namespace).await.unwrap().is_some() {
            tokio::time::sleep(PERIOD).await;
        }
    }
}

impl Seen {
    /// Checks that every service is ready, and otherwise prints the reason.
    pub(super) fn assert_ready(&self, topology: &Topology) {
        for name in topology.services() {
            let service = &self.alive[&format!("LLMInferenceService.serving.kserve.io/v1alpha2 {name}")];
            let conditions = service["status"]["conditions"].as_array().unwrap();
            let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
            let wanted = if topology.is_stopped() { "False" } else { "True" };
            assert_eq!(ready["status"], wanted, "{}: {conditions:#?}", topology.name);
        }
    }

    /// Panics if the trial differs from one without faults.
    pub(super) fn assert_like(&self, calm: &Self, what: &str) {
        let wrong = self.unlike(calm, what);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// Returns the differences from a trial without faults.
    pub(super) fn unlike(&self, calm: &Self, what: &str) -> Vec<String> {
        let alive = differences(&self.alive, &calm.alive).into_iter().map(|d| format!("{what}, alive: {d}"));
        let gone = differences(&self.gone, &calm.gone).into_iter().map(|d| format!("{what}, deleted: {d}"));
        let mut wrong: Vec<String> = alive.chain(gone).collect();
        if self.events > 2 * calm.events + 12 {
            wrong.push(format!("{what}: {} events instead of {}", self.events, calm.events));
        }
        wrong
    }
}
