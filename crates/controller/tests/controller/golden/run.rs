//! Runs the stages of a case.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use kube::{
    Api, Error, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use longboat_golden::{Case, Difference, Entry, Stage};
use longboat_testkit::TestCluster;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{difference, look, platform, ready};

/// A world is at rest if nothing was written for this long, except by retries that always fail.
const QUIET: Duration = Duration::from_secs(20);
/// The time between two checks.
const PERIOD: Duration = Duration::from_millis(500);
/// After this time, retries that always fail are rare.
const LONG: Duration = Duration::from_mins(4);

/// The API versions of the kinds of inputs.
const VERSIONS: [(&str, &str); 12] = [
    ("LLMInferenceService", "serving.kserve.io/v1alpha2"),
    ("LLMInferenceServiceConfig", "serving.kserve.io/v1alpha2"),
    ("Deployment", "apps/v1"),
    ("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1"),
    ("HTTPRoute", "gateway.networking.k8s.io/v1"),
    ("Gateway", "gateway.networking.k8s.io/v1"),
    ("InferencePool", "inference.networking.k8s.io/v1"),
    ("Service", "v1"),
    ("Secret", "v1"),
    ("ServiceAccount", "v1"),
    ("ConfigMap", "v1"),
    ("PersistentVolumeClaim", "v1"),
];

/// Runs a case from its first object to its last stage. Returns the differences from the recording.
pub(super) async fn case(world: &TestCluster, recordings: &Entry, case: &Case) -> Vec<Difference> {
    let mut found = Vec::new();
    for namespace in namespaces(case) {
        world.namespace(&namespace).await;
    }
    if !case.has_default_account {
        delete(world, "ServiceAccount", &case.name, "default").await;
    }
    for (at, stage) in case.stages.iter().enumerate() {
        let inputs = if at == 0 { &case.inputs } else { &stage.inputs };
        for input in inputs {
            if let Err(error) = put(world, input.clone(), &case.name).await
                && !stage.denied
            {
                found.push(difference(
                    format!("{}/input", stage.name),
                    "accepted",
                    format!("refused: {error}"),
                ));
            }
        }
        act(world, case, stage).await;
        settle(world).await;
        look::compare(world, case, stage, &mut found).await;
        if at == 0 {
            found.extend(platform::rendered(world, recordings, case).await);
        }
    }
    look::compare_events(world, case, &mut found).await;
    found
}

/// The case's own namespace, and those of its inputs.
fn namespaces(case: &Case) -> BTreeSet<String> {
    let inputs = case.inputs.iter().chain(case.stages.iter().flat_map(|stage| &stage.inputs));
    let named = inputs.filter_map(|input| input["metadata"]["namespace"].as_str());
    let foreign = named.filter(|namespace| *namespace != "kserve").map(str::to_owned);
    foreign.chain([case.name.clone()]).collect()
}

/// Removes the objects of a case from the world, which all cases share.
pub(super) async fn forget(world: &TestCluster, recordings: &Entry, case: &Case) {
    let all: Api<Namespace> = Api::all(world.client());
    for namespace in namespaces(case) {
        // No controller here removes the finalizer that protects claims.
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(world.client(), &namespace);
        for claim in claims.list(&ListParams::default()).await.unwrap() {
            let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            claims.patch(&claim.name_any(), &PatchParams::default(), &free).await.unwrap();
        }
        all.delete(&namespace, &DeleteParams::default()).await.unwrap();
        while all.get_opt(&namespace).await.unwrap().is_some() {
            tokio::time::sleep(PERIOD).await;
        }
    }
    let inputs = case.inputs.iter().chain(case.stages.iter().flat_map(|stage| &stage.inputs));
    for input in inputs.filter(|input| input["metadata"]["namespace"] == "kserve") {
        let (kind, name) = (input["kind"].as_str().unwrap(), input["metadata"]["name"].as_str().unwrap());
        delete(world, kind, "kserve", name).await;
        settle(world).await;
        platform::restore_preset(world, recordings, name).await;
    }
    settle(world).await;
}

/// Waits until nothing is written, except by retries that always fail.
pub(crate) async fn settle(world: &TestCluster) {
    let (began, mut since, mut revision) = (Instant::now(), Instant::now(), world.server.revision());
    while since.elapsed() < QUIET && began.elapsed() < LONG {
        tokio::time::sleep(PERIOD).await;
        let now = world.server.revision();
        if now != revision {
            (revision, since) = (now, Instant::now());
        }
    }
}

/// The API of a kind in a namespace, or in the cluster if the kind is cluster-scoped.
pub(super) fn api(world: &TestCluster, version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    if ["ClusterRoleBinding", "GatewayClass"].contains(&kind) {
        Api::all_with(world.client(), &resource)
    } else {
        Api::namespaced_with(world.client(), namespace, &resource)
    }
}

fn api_of(world: &TestCluster, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let (kind, version) =
        VERSIONS.iter().find(|(known, _)| *known == kind).expect("a kind of the recordings");
    api(world, version, kind, namespace)
}

/// Creates an object, or replaces it like a user would. Its status is written as by its controller.
pub(crate) async fn put(world: &TestCluster, mut object: Value, namespace: &str) -> Result<(), Error> {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or(namespace).to_owned();
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let api = api(world, object["apiVersion"].as_str().unwrap_or_default(), &kind, &namespace);
    let status = object.as_object_mut().and_then(|fields| fields.remove("status"));
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("creationTimestamp");
    }
    let name = object["metadata"]["name"].as_str().map(str::to_owned);
    let live = match &name {
        Some(name) => api.get_opt(name).await?,
        None => None,
    };
    let stored = if let Some(live) = live {
        let live = live.metadata;
        object["metadata"]["resourceVersion"] = json!(live.resource_version);
        if object["metadata"]["finalizers"].is_null() {
            object["metadata"]["finalizers"] = json!(live.finalizers);
        }
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        api.replace(name.as_deref().unwrap_or_default(), &PostParams::default(), &object).await?
    } else {
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await?
    };
    if let Some(status) = status {
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(&stored.metadata.name.unwrap_or_default(), &PatchParams::default(), &patch).await?;
    }
    Ok(())
}

/// Deletes an object if it exists.
pub(super) async fn delete(world: &TestCluster, kind: &str, namespace: &str, name: &str) {
    match api_of(world, kind, namespace).delete(name, &DeleteParams::default()).await {
        Ok(_) => {}
        Err(Error::Api(status)) if status.code == 404 => {}
        Err(error) => panic!("cannot delete {kind} {namespace}/{name}: {error}"),
    }
}

/// Executes the action of a stage, apart from its inputs.
async fn act(world: &TestCluster, case: &Case, stage: &Stage) {
    let action = stage.action.as_str();
    if action.is_empty() || action.starts_with("nothing done") {
        return;
    }
    if let Some(how) = action.strip_prefix("world simulated: ") {
        ready::make(world, &case.name, &serde_json::from_str(how).unwrap()).await;
        return;
    }
    let words: Vec<&str> = action.splitn(4, ' ').collect();
    match words[..] {
        ["DELETE", kind, name] => delete(world, kind, &case.name, name).await,
        ["PATCH", kind, name, patch] => {
            let patch: Value = serde_json::from_str(patch.trim_start_matches(": ")).unwrap();
            let patch = if patch.is_array() {
                Patch::Json::<Value>(serde_json::from_value(patch).unwrap())
            } else {
                Patch::Merge(patch)
            };
            let api = api_of(world, kind, &case.name);
            api.patch(name, &PatchParams::default(), &patch).await.unwrap();
        }
        ["GET", "through", "v1alpha1", ..] => {
            let api = self::api(world, "serving.kserve.io/v1alpha1", "LLMInferenceService", &case.name);
            let object = api.get("llm").await.unwrap();
            api.replace("llm", &PostParams::default(), &object).await.unwrap();
        }
        _ => panic!("{}: an action that is not known: {action}", case.name),
    }
}
