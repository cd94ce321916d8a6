//! Runtimes that are created late, changed and deleted.

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, api::DeleteParams};
use longboat_api::{
    conditions::Condition,
    foreign::servingruntime::{ClusterServingRuntime, ServingRuntime},
};
use longboat_testkit::TestCluster;
use serde_json::{Value, json};

use crate::setup::{Running, condition, deployments, service, services, started, world};

fn runtime(namespace: Option<&str>, image: &str) -> Value {
    json!({
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": if namespace.is_some() { "ServingRuntime" } else { "ClusterServingRuntime" },
        "metadata": {"name": "fast", "namespace": namespace},
        "spec": {
            "supportedModelFormats": [{"name": "sglang", "version": "1"}],
            "containers": [{"name": "main", "image": image}],
            "protocolVersions": ["v1"],
        },
    })
}

fn image(deployment: &Deployment) -> Option<&str> {
    let containers = &deployment.spec.as_ref()?.template.spec.as_ref()?.containers;
    containers.iter().find(|container| container.name == "main")?.image.as_deref()
}

async fn image_becomes(world: &TestCluster, wanted: &str) {
    let api = deployments(world.client());
    world
        .eventually(wanted, async || {
            let found = api.get_opt("llm-kserve").await.unwrap()?;
            (image(&found) == Some(wanted)).then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_runtime_is_watched_from_its_creation_to_its_deletion() {
    let (world, _running) = started(service("llm", json!({"runtime": "fast"}))).await;
    // Neither the runtime nor its API exists.
    let missing = condition(&world, "llm", "PresetsCombined", Condition::is_false).await;
    assert_eq!(missing.reason, "RuntimeNotFound");
    assert!(missing.message.contains("\"fast\"") && missing.message.contains("namespace ns"), "{missing:?}");
    for crd in longboat_api::crd::runtimes() {
        world.install_crd(crd).await;
    }
    world.apply(runtime(None, "cluster:1")).await;
    image_becomes(&world, "cluster:1").await;
    condition(&world, "llm", "PresetsCombined", Condition::is_true).await;
    let status = services(world.client()).get("llm").await.unwrap().status.unwrap();
    let applied = serde_json::to_value(&status.applied_configs).unwrap();
    assert_eq!(applied[0], json!({"name": "fast", "source": "ServingRuntime"}));
    assert_eq!(applied[1]["name"], "kserve-config-sglang-template");

    world.apply(runtime(None, "cluster:2")).await;
    image_becomes(&world, "cluster:2").await;
    world.apply(runtime(Some("ns"), "own:1")).await;
    image_becomes(&world, "own:1").await;
    let own: Api<ServingRuntime> = Api::namespaced(world.client(), "ns");
    own.delete("fast", &DeleteParams::default()).await.unwrap();
    image_becomes(&world, "cluster:2").await;
    let shared: Api<ClusterServingRuntime> = Api::all(world.client());
    shared.delete("fast", &DeleteParams::default()).await.unwrap();
    condition(&world, "llm", "PresetsCombined", |c| c.reason == "RuntimeNotFound").await;
}

#[tokio::test]
async fn a_combination_that_only_the_runtime_shows_is_a_condition() {
    let world = world().await;
    for crd in longboat_api::crd::runtimes() {
        world.install_crd(crd).await;
    }
    world.apply(runtime(Some("ns"), "own:1")).await;
    let _running = Running::start(&world);
    world.apply(service("llm", json!({"runtime": "fast", "kvCacheOffloading": {"cpu": "1Gi"}}))).await;
    let refused = condition(&world, "llm", "PresetsCombined", Condition::is_false).await;
    assert_eq!(refused.reason, "RuntimeUnsupported");
    assert!(refused.message.contains("spec.kvCacheOffloading"), "{refused:?}");
}
