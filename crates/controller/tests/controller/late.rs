//! Decisions based on incomplete information, and on information that changes later.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, PodTemplateSpec},
    resource::v1::ResourceClaimTemplate,
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use longboat_api::annotations::{DRA_DEVICE_CLASS, DRA_DEVICES};
use longboat_testkit::TestCluster;
use serde_json::{Value, json};

use crate::setup::{QUIET, Running, deployments, service, started, world};

async fn live(world: &TestCluster, namespace: &str) -> Deployment {
    let api: Api<Deployment> = Api::namespaced(world.client(), namespace);
    world.eventually("the Deployment", async || api.get_opt("llm-kserve").await.unwrap()).await
}

fn pods(deployment: Deployment) -> PodTemplateSpec {
    deployment.spec.unwrap().template
}

async fn patch(world: &TestCluster, patch: Value) {
    let api = deployments(world.client());
    api.patch("llm-kserve", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

#[tokio::test]
async fn a_service_applied_together_with_its_namespace_is_like_one_applied_later() {
    let world = world().await;
    let _running = Running::start(&world);
    let mut early = service("llm", json!({}));
    early["metadata"]["namespace"] = "fresh".into();
    let fresh: Namespace = serde_json::from_value(json!({"metadata": {"name": "fresh"}})).unwrap();
    let namespaces: Api<Namespace> = Api::all(world.client());
    namespaces.create(&PostParams::default(), &fresh).await.unwrap();
    world.apply(early).await;
    live(&world, "fresh").await;
    // Its service account is created after the Deployment.
    world.namespace("fresh").await;
    world.apply(service("llm", json!({}))).await;
    live(&world, "ns").await;
    world.settle(QUIET).await;
    let initializers = async |namespace| pods(live(&world, namespace).await).spec.unwrap().init_containers;
    let (early, late) = (initializers("fresh").await, initializers("ns").await);
    assert!(early.is_some());
    assert_eq!(early, late);
}

#[tokio::test]
async fn a_child_that_was_not_known_is_looked_at_before_it_is_written() {
    let (world, running) = started(service("llm", json!({"replicas": null}))).await;
    live(&world, "ns").await;
    world.settle(QUIET).await;
    running.stop().await;
    // Without our label, no watch reports it. An autoscaler or user has set its number of replicas.
    let label = "app.kubernetes.io/part-of";
    patch(&world, json!({"metadata": {"labels": {label: null}}, "spec": {"replicas": 5}})).await;
    let _running = Running::start(&world);
    let labelled = async || {
        let live = live(&world, "ns").await;
        live.metadata.labels.as_ref()?.contains_key(label).then_some(live)
    };
    let live = world.eventually("the label", labelled).await;
    assert_eq!(live.spec.unwrap().replicas, Some(5));
}

#[tokio::test]
async fn other_devices_reach_the_pods_and_pods_of_the_reference_run_on() {
    let world = world().await;
    let running = Running::start(&world);
    let mut asking = service("llm", json!({}));
    asking["metadata"]["annotations"] = json!({DRA_DEVICE_CLASS: "gpu.example.com"});
    world.apply(asking.clone()).await;
    live(&world, "ns").await;
    world.settle(QUIET).await;
    running.stop().await;

    // The form in which the reference creates them.
    let unmarked = json!({"metadata": {"annotations": {DRA_DEVICES: null}}});
    patch(&world, json!({"spec": {"template": unmarked}})).await;
    let templates: Api<ResourceClaimTemplate> = Api::namespaced(world.client(), "ns");
    templates.patch("llm-managed-dra", &PatchParams::default(), &Patch::Merge(unmarked)).await.unwrap();
    let running = Running::start(&world);
    world.settle(QUIET).await;
    assert_eq!(running.faults.log(), []);

    let before = pods(live(&world, "ns").await);
    asking["metadata"]["annotations"] = json!({DRA_DEVICE_CLASS: "tpu.example.com"});
    world.apply(asking).await;
    world.settle(QUIET).await;
    let template = templates.get("llm-managed-dra").await.unwrap();
    let request = &template.spec.spec.devices.unwrap().requests.unwrap()[0];
    assert_eq!(request.exactly.as_ref().unwrap().device_class_name, "tpu.example.com");
    let after = pods(live(&world, "ns").await);
    assert_eq!(after.spec, before.spec);
    assert_ne!(after.metadata, before.metadata, "pods keep the devices that they have");
    running.stop().await;
}
