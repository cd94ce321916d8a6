//! The platform of the recordings: presets, settings and the default Gateway of the reference.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, api::DeleteParams};
use longboat_golden::{Case, Difference, Entry, documents};
use longboat_key::Namespace;
use longboat_offline::{Presets, Settings};
use longboat_testkit::{Faults, TestCluster};
use serde_json::{Value, json};

use super::run;
use crate::offline;
use crate::setup::{Running, admission};

/// The time between two checks.
const PERIOD: Duration = Duration::from_millis(500);

/// Creates the default world.
pub(super) async fn world(recordings: &Entry) -> TestCluster {
    let world = TestCluster::bare(admission()).await;
    for crd in optional_apis() {
        world.install_crd(crd).await;
    }
    settings(&world, recordings, None).await;
    for preset in documents(&recordings.join("base/presets-stored.yaml")) {
        run::put(&world, preset, "kserve").await.unwrap();
    }
    gateway(&world, recordings).await;
    world
}

/// Changes the world to the settings and APIs of a case.
pub(super) async fn set_up_case(world: &TestCluster, recordings: &Entry, case: &Case) {
    if case.variant.is_some() {
        settings(world, recordings, case.variant.as_deref()).await;
    }
    let crds: Api<CustomResourceDefinition> = Api::all(world.client());
    for crd in optional_apis().filter(|crd| !is_served(case.server.as_deref(), crd)) {
        let name = crd["metadata"]["name"].as_str().unwrap();
        crds.delete(name, &DeleteParams::default()).await.unwrap();
        while crds.get_opt(name).await.unwrap().is_some() {
            tokio::time::sleep(PERIOD).await;
        }
    }
    if is_unusual(case) {
        run::settle(world).await;
    }
}

/// Returns the differences between what the controller wrote, and the output of `render` for the inputs of a case and the
/// same platform.
pub(super) async fn rendered(world: &TestCluster, recordings: &Entry, case: &Case) -> Vec<Difference> {
    let read = |file: &str| {
        let file = recordings.join(file);
        if file.exists() { offline::documents(&documents(&file)) } else { Vec::new() }
    };
    let settings_file = match &case.variant {
        Some(variant) => format!("base/variants/{variant}.yaml"),
        None => "base/configmap.yaml".to_owned(),
    };
    let mut settings = Settings {
        namespace: Namespace(&*case.name).to_shared(),
        presets: Presets::Given(read("base/presets-stored.yaml")),
        platform: read(&settings_file).pop(),
        ..Settings::default()
    };
    // Without settings nothing is written, but `render` would use its own settings.
    if settings.platform.is_none() {
        return Vec::new();
    }
    let groups: Vec<_> = optional_apis().filter(|crd| is_served(case.server.as_deref(), crd)).collect();
    let serves = |group: &str| groups.iter().any(|crd| crd["spec"]["group"] == group);
    settings.capabilities.gateway_api = serves("gateway.networking.k8s.io");
    settings.capabilities.inference_pool = serves("inference.networking.k8s.io");
    settings.capabilities.inference_pool_x = serves("inference.networking.x-k8s.io");
    settings.capabilities.leader_worker_set = serves("leaderworkerset.x-k8s.io");
    settings.capabilities.scaled_object = serves("keda.sh");
    let mut objects = case.inputs.clone();
    let is_account =
        |object: &Value| object["kind"] == "ServiceAccount" && object["metadata"]["name"] == "default";
    if case.has_default_account && !objects.iter().any(is_account) {
        objects.insert(
            0,
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}),
        );
    }
    let mut documents = offline::documents(&objects);
    documents.extend(read("base/gateway.yaml"));
    offline::compare(world, &documents, &settings).await.found
}

/// Reverts [`set_up_case`].
pub(super) async fn tear_down_case(world: &TestCluster, recordings: &Entry, case: &Case) {
    if case.variant.is_some() {
        settings(world, recordings, None).await;
    }
    for crd in optional_apis().filter(|crd| !is_served(case.server.as_deref(), crd)) {
        world.install_crd(crd).await;
    }
    if case.server.as_deref() == Some("nogateway") {
        gateway(world, recordings).await;
    }
    if is_unusual(case) {
        run::settle(world).await;
    }
}

fn is_unusual(case: &Case) -> bool {
    case.server.is_some() || case.variant.is_some()
}

fn optional_apis() -> impl Iterator<Item = Value> {
    longboat_api::crd::foreign().into_iter().chain(longboat_api::crd::optional())
}

async fn gateway(world: &TestCluster, recordings: &Entry) {
    for gateway in documents(&recordings.join("base/gateway.yaml")) {
        run::put(world, gateway, "kserve").await.unwrap();
    }
}

/// Starts a controller, and waits until it is at rest.
pub(super) async fn controller(world: &TestCluster) -> Running {
    let running = Running::with(world, Faults::default());
    run::settle(world).await;
    running
}

/// Restores a preset. Does nothing for other objects.
pub(super) async fn restore_preset(world: &TestCluster, recordings: &Entry, name: &str) {
    let presets = documents(&recordings.join("base/presets-stored.yaml"));
    for preset in presets.into_iter().filter(|preset| preset["metadata"]["name"] == name) {
        run::put(world, preset, "kserve").await.unwrap();
    }
}

fn is_served(server: Option<&str>, crd: &Value) -> bool {
    let group = crd["spec"]["group"].as_str().unwrap_or_default();
    match server {
        Some("nogateway") => group != "gateway.networking.k8s.io",
        Some("noxpool") => group != "inference.networking.x-k8s.io",
        Some("minimal") => ![
            "inference.networking.k8s.io",
            "inference.networking.x-k8s.io",
            "leaderworkerset.x-k8s.io",
            "keda.sh",
        ]
        .contains(&group),
        _ => true,
    }
}

async fn settings(world: &TestCluster, recordings: &Entry, variant: Option<&str>) {
    let file = match variant {
        Some(variant) => recordings.join(&format!("base/variants/{variant}.yaml")),
        None => recordings.join("base/configmap.yaml"),
    };
    if file.exists() {
        for settings in documents(&file) {
            run::put(world, settings, "kserve").await.unwrap();
        }
    } else {
        run::delete(world, "ConfigMap", "kserve", "inferenceservice-config").await;
    }
}
