//! Compares the output of `render`, which needs no cluster, with what the running controller writes.
//!
//! All cases of `tests/cases` share one world. The recorded cases are compared by `golden`.

use std::{collections::BTreeSet, fs, path::Path};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, PostParams},
    core::GroupVersionKind,
};
use longboat_compose::{PresetNames, presets};
use longboat_golden::{Difference, differences, normal_child};
use longboat_key::Namespace;
use longboat_manifest::Document;
use longboat_offline::{Settings, render, scene::Scene};
use longboat_testkit::TestCluster;
use serde_json::{Value, json};

use crate::{
    golden::run::{put, settle},
    setup::{Running, world},
};

/// The result of a comparison.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    /// The number of compared children.
    pub(crate) objects: usize,
    /// The number of services for which `render` assumes what the world cannot have.
    pub(crate) assumed: usize,
    /// The differences.
    pub(crate) found: Vec<Difference>,
}

/// Renders manifests, and compares each child with the one that the controller has written.
pub(crate) async fn compare(world: &TestCluster, documents: &[Document], settings: &Settings) -> Compared {
    let mut compared = Compared::default();
    let Ok(scene) = Scene::new(documents, settings) else { return compared };
    let mut rendered = BTreeSet::new();
    let mut owners = BTreeSet::new();
    for subject in &scene.subjects {
        let Ok(planned) = scene.plan(&subject.service) else { continue };
        if !planned.assumed.is_empty() {
            compared.assumed += 1;
            continue;
        }
        owners.insert(subject.service.metadata.name.clone().unwrap_or_default());
        for object in render::children(&scene, &subject.service).unwrap().objects {
            let name = object.value["metadata"]["name"].as_str().unwrap().to_owned();
            let (kind, place) = (kind_of(&object.value), place_of(&object.value));
            rendered.insert((kind, name));
            compared.objects += 1;
            one(world, object.value, &settings.namespace, &place, &mut compared.found).await;
        }
    }
    for object in written(world, &settings.namespace, &owners).await {
        if !rendered.contains(&(kind_of(&object), object["metadata"]["name"].as_str().unwrap().to_owned())) {
            compared.found.push(difference(&place_of(&object), "written", "not rendered"));
        }
    }
    compared
}

fn difference(place: &str, recorded: &str, ours: &str) -> Difference {
    Difference { place: format!("offline/{place}"), recorded: recorded.to_owned(), ours: ours.to_owned() }
}

fn kind_of(object: &Value) -> String {
    format!("{} {}", object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap())
}

fn place_of(object: &Value) -> String {
    format!("{} {}", kind_of(object), object["metadata"]["name"].as_str().unwrap())
}

/// Compares one child in the form in which the server would store it.
async fn one(
    world: &TestCluster,
    mut ours: Value,
    namespace: &str,
    place: &str,
    found: &mut Vec<Difference>,
) {
    let api = api_of(world, &ours, namespace);
    let name = ours["metadata"]["name"].as_str().unwrap().to_owned();
    let Some(live) = api.get_opt(&name).await.unwrap() else {
        found.push(difference(place, "not written", "rendered"));
        return;
    };
    let live = serde_json::to_value(live).unwrap();
    ours["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
    // Only the server knows these values, or only at the time of the write.
    if ours["kind"] == "Secret" {
        ours["data"] = live["data"].clone();
    }
    for field in ["clusterIP", "clusterIPs"] {
        if ours["kind"] == "Service" && !live["spec"][field].is_null() {
            ours["spec"][field] = live["spec"][field].clone();
        }
    }
    let asked = PostParams { dry_run: true, ..PostParams::default() };
    let object: DynamicObject = serde_json::from_value(ours.clone()).unwrap();
    let stored = match api.replace(&name, &asked, &object).await {
        Ok(stored) => serde_json::to_value(stored).unwrap(),
        Err(error) => {
            found.push(difference(place, "written", &format!("refused: {error}")));
            return;
        }
    };
    differences(&format!("offline/{place}"), &normal_child(live), &normal_child(stored), found);
}

/// Returns the children of services in a namespace. Skips kinds that the cluster does not serve.
async fn written(world: &TestCluster, namespace: &str, owners: &BTreeSet<String>) -> Vec<Value> {
    const KINDS: [(&str, &str); 12] = [
        ("v1", "Secret"),
        ("v1", "ServiceAccount"),
        ("v1", "Service"),
        ("rbac.authorization.k8s.io/v1", "Role"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        ("resource.k8s.io/v1", "ResourceClaimTemplate"),
        ("apps/v1", "Deployment"),
        ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
        ("autoscaling/v2", "HorizontalPodAutoscaler"),
        ("keda.sh/v1alpha1", "ScaledObject"),
        ("inference.networking.k8s.io/v1", "InferencePool"),
        ("gateway.networking.k8s.io/v1", "HTTPRoute"),
    ];
    let mut all = Vec::new();
    for (version, kind) in KINDS {
        let api = api_of(world, &json!({"apiVersion": version, "kind": kind}), namespace);
        let Ok(list) = api.list(&ListParams::default()).await else { continue };
        for object in list {
            let is_child = |owner: &k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference| {
                owner.kind == "LLMInferenceService" && owners.contains(&owner.name)
            };
            if object.owner_references().iter().any(is_child) {
                let mut object = serde_json::to_value(object).unwrap();
                (object["apiVersion"], object["kind"]) = (version.into(), kind.into());
                all.push(object);
            }
        }
    }
    all
}

fn api_of(world: &TestCluster, object: &Value, namespace: &str) -> Api<DynamicObject> {
    let (version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    match object["metadata"]["namespace"].as_str() {
        None if kind == "ClusterRoleBinding" => Api::all_with(world.client(), &resource),
        own => Api::namespaced_with(world.client(), own.unwrap_or(namespace), &resource),
    }
}

/// Returns objects as manifests.
pub(crate) fn documents(objects: &[Value]) -> Vec<Document> {
    let text: Vec<String> = objects.iter().map(ToString::to_string).collect();
    longboat_manifest::parse("manifests", &text.join("\n---\n")).unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_case_is_rendered_as_the_controller_writes_it() {
    let world = world().await;
    for crd in longboat_api::crd::runtimes() {
        world.install_crd(crd).await;
    }
    for runtime in presets::runtimes().unwrap() {
        world.apply(serde_json::to_value(runtime).unwrap()).await;
    }
    let shipped = presets::builtin(&PresetNames::default(), Namespace("kserve")).unwrap();
    let shipped: Vec<Value> =
        shipped.into_iter().map(|preset| serde_json::to_value(preset).unwrap()).collect();
    let running = Running::start(&world);
    let platform: ConfigMap =
        Api::namespaced(world.client(), "kserve").get("inferenceservice-config").await.unwrap();
    let mut platform = serde_json::to_value(platform).unwrap();
    (platform["apiVersion"], platform["kind"]) = ("v1".into(), "ConfigMap".into());
    let gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": {"name": "kserve-ingress-gateway", "namespace": "kserve"},
        "spec": {"gatewayClassName": "test", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
    });
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let files = |folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<_> = files(folder.join("topology"))
        .chain(files(folder.join("compose")).map(|path| path.join("input.yaml")).filter(|path| path.exists()))
        .collect();
    cases.sort();
    let mut all = Compared::default();
    for (at, case) in cases.iter().enumerate() {
        let text = fs::read_to_string(case).unwrap();
        let mut objects: Vec<Value> = longboat_manifest::parse("case", &text)
            .unwrap()
            .into_iter()
            .map(|document| document.object)
            .filter(|object| object["metadata"]["name"] != "inferenceservice-config")
            .collect();
        // Each case has its own namespace, whatever the manifests say.
        let namespace = format!("case-{at}");
        for object in &mut objects {
            if object["metadata"]["namespace"] != "kserve" {
                object["metadata"]["namespace"] = namespace.as_str().into();
            }
        }
        world.namespace(&namespace).await;
        for object in &objects {
            put(&world, object.clone(), &namespace).await.unwrap_or_else(|error| panic!("{case:?}: {error}"));
        }
        settle(&world).await;
        let settings = Settings {
            namespace: Namespace(&*namespace).to_shared(),
            platform: Some(documents(std::slice::from_ref(&platform)).remove(0)),
            ..Settings::default()
        };
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace},
        });
        objects.extend([account, gateway.clone()]);
        let compared = compare(&world, &documents(&objects), &settings).await;
        all.objects += compared.objects;
        all.assumed += compared.assumed;
        all.found.extend(compared.found.into_iter().map(|found| Difference {
            place: format!("{}: {}", case.strip_prefix(&folder).unwrap().display(), found.place),
            ..found
        }));
        // The next cases have the presets of this build again.
        let is_replaced = |preset: &&Value| {
            objects.iter().any(|object| {
                object["kind"] == preset["kind"]
                    && ["namespace", "name"]
                        .iter()
                        .all(|key| object["metadata"][key] == preset["metadata"][key])
            })
        };
        for preset in shipped.iter().filter(is_replaced) {
            put(&world, preset.clone(), "kserve").await.unwrap();
        }
    }
    running.stop().await;
    assert!(all.found.is_empty(), "{:#?}", all.found);
    assert!(all.objects > 250, "{} children compared, {} services left out", all.objects, all.assumed);
}
