//! Optional APIs that appear and disappear, and objects that the controller may not list.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, api::DeleteParams};
use longboat_api::conditions::Condition;
use longboat_api::foreign::{
    httproute::HTTPRoute, leaderworkerset::LeaderWorkerSet, scaledobject::ScaledObject,
};
use longboat_testkit::{Faults, TestCluster};
use serde_json::json;

use crate::setup::{Running, admission, condition, deployments, full, install_presets, service, world};

async fn without_optional_apis() -> TestCluster {
    let world = TestCluster::bare(admission()).await;
    install_presets(&world).await;
    world.namespace("ns").await;
    world
}

#[tokio::test]
async fn a_service_without_router_needs_no_optional_api() {
    let world = without_optional_apis().await;
    let _running = Running::start(&world);
    world.apply(service("llm", json!({}))).await;
    let api = deployments(world.client());
    world.eventually("the Deployment", async || api.get_opt("llm-kserve").await.unwrap()).await;
    world.make_available("ns").await;
    condition(&world, "llm", "Ready", Condition::is_true).await;
}

#[tokio::test]
async fn a_missing_api_degrades_what_needs_it_and_is_noticed_when_it_comes() {
    let world = without_optional_apis().await;
    let _running = Running::start(&world);
    world.apply(service("llm", full())).await;
    // The workload is written even if the router cannot be.
    let api = deployments(world.client());
    world.eventually("the Deployment", async || api.get_opt("llm-kserve").await.unwrap()).await;
    condition(&world, "llm", "RouterReady", Condition::is_false).await;
    for crd in longboat_api::crd::foreign() {
        world.install_crd(crd).await;
    }
    world.apply(json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": {"name": "kserve-ingress-gateway", "namespace": "kserve"},
        "spec": {"gatewayClassName": "test", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
    })).await;
    world
        .eventually("the route", async || world.names::<HTTPRoute>("ns").await == ["llm-kserve-route"])
        .await;
    let crds: Api<CustomResourceDefinition> = Api::all(world.client());
    crds.delete("httproutes.gateway.networking.k8s.io", &DeleteParams::default()).await.unwrap();
    condition(&world, "llm", "RouterReady", |c| c.is_false() && c.message.contains("Gateway API")).await;
}

#[tokio::test]
async fn groups_of_pods_wait_for_their_api_and_come_when_it_does() {
    let world = without_optional_apis().await;
    let _running = Running::start(&world);
    let over_two =
        json!({"parallelism": {"data": 2, "dataLocal": 1}, "worker": {"containers": [{"name": "main"}]}});
    world.apply(service("llm", over_two)).await;
    let names_it = |c: &Condition| {
        c.is_false() && c.message.contains("leaderworkerset.x-k8s.io/v1") && c.message.contains("install")
    };
    condition(&world, "llm", "WorkerWorkloadReady", names_it).await;
    for crd in longboat_api::crd::optional() {
        world.install_crd(crd).await;
    }
    world
        .eventually("the group", async || world.names::<LeaderWorkerSet>("ns").await == ["llm-kserve-mn"])
        .await;
    condition(&world, "llm", "WorkerWorkloadReady", |c| c.is_false() && c.reason == "Progressing").await;
}

#[tokio::test]
async fn without_keda_only_scaling_degrades_until_it_is_there() {
    let world = without_optional_apis().await;
    let _running = Running::start(&world);
    let triggers = json!([{"type": "cron", "metadata": {"a": "b"}}]);
    let scaled = json!({"replicas": null, "scaling": {"maxReplicas": 3, "keda": {"triggers": triggers}}});
    world.apply(service("llm", scaled)).await;
    let api = deployments(world.client());
    world.eventually("the Deployment", async || api.get_opt("llm-kserve").await.unwrap()).await;
    world.make_available("ns").await;
    condition(&world, "llm", "MainWorkloadReady", Condition::is_true).await;
    let names_it = |c: &Condition| {
        c.is_false() && c.reason == "ScalingCRDNotFound" && c.message.contains("install KEDA")
    };
    condition(&world, "llm", "ScalingReady", names_it).await;
    for crd in longboat_api::crd::optional() {
        world.install_crd(crd).await;
    }
    world
        .eventually("what scales", async || world.names::<ScaledObject>("ns").await == ["llm-kserve-keda"])
        .await;
    condition(&world, "llm", "ScalingReady", |c| c.is_false() && c.reason == "ScaledObjectProgressing").await;
}

#[tokio::test]
async fn objects_that_may_not_be_listed_are_not_called_missing() {
    let world = world().await;
    for (path, kind, type_) in [
        ("/apis/gateway.networking.k8s.io/v1/httproutes", "HTTPRoute", "HTTPRoutesReady"),
        ("/apis/apps/v1/deployments", "Deployment", "MainWorkloadReady"),
    ] {
        let faults = Faults::default();
        faults.forbid(Some(path));
        let running = Running::with(&world, faults.clone());
        world.apply(service("llm", full())).await;
        let says = format!("no right to list {kind} objects");
        condition(&world, "llm", type_, |found| found.is_false() && found.message.contains(&says)).await;
        faults.forbid(None);
        condition(&world, "llm", type_, |found| !found.message.contains(&says)).await;
        running.stop().await;
    }
}
