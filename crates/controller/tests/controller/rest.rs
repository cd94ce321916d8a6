//! The controller comes to rest: it does not write to an unchanged world.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use longboat_api::conditions::Condition;
use longboat_controller::{Args, view};
use longboat_key::Key;
use longboat_testkit::{Faults, TestCluster};
use serde_json::json;

use crate::setup::{QUIET, Running, condition, deployments, full, service, services, started, world};

async fn converged(world: &TestCluster) {
    world.apply(service("llm", full())).await;
    world.apply(service("plain", json!({}))).await;
    let api = deployments(world.client());
    world.eventually("the picker", async || api.get_opt("llm-kserve-router-scheduler").await.unwrap()).await;
    condition(world, "plain", "PresetsCombined", Condition::is_true).await;
    world.settle(QUIET).await;
    world.make_available("ns").await;
    condition(world, "plain", "Ready", Condition::is_true).await;
    world.settle(QUIET).await;
}

#[tokio::test]
async fn a_view_of_a_cluster_without_services_has_its_gateways() {
    let world = world().await;
    let view = view(Args::default(), world.client()).await.unwrap();
    let gateways: Vec<String> =
        view.snapshot.gateways.iter().map(|gateway| Key::of(gateway).to_string()).collect();
    assert_eq!((view.services.len(), gateways), (0, vec!["kserve/kserve-ingress-gateway".to_owned()]));
}

#[tokio::test]
async fn triggers_that_change_nothing_write_nothing() {
    let world = world().await;
    let running = Running::start(&world);
    converged(&world).await;
    let writes = running.faults.writes();
    // This change of the platform settings enqueues every service, but does not affect any.
    let settings: Api<ConfigMap> = Api::namespaced(world.client(), "kserve");
    let patch = json!({"data": {"localModel": "{\"enabled\": true}"}});
    settings.patch("inferenceservice-config", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let label = json!({"metadata": {"labels": {"somebody": "else"}}});
    for deployment in deployments(world.client()).list(&kube::api::ListParams::default()).await.unwrap() {
        let name = deployment.name_any();
        deployments(world.client())
            .patch(&name, &PatchParams::default(), &Patch::Merge(&label))
            .await
            .unwrap();
    }
    world.settle(QUIET).await;
    assert_eq!(running.faults.writes(), writes);
}

#[tokio::test]
async fn a_restart_writes_nothing() {
    let world = world().await;
    let running = Running::start(&world);
    converged(&world).await;
    running.stop().await;
    let revision = world.server.revision();
    let running = Running::start(&world);
    world.settle(QUIET).await;
    assert_eq!(running.faults.writes(), 0);
    assert_eq!(world.server.revision(), revision);
}

#[tokio::test]
async fn conflicts_are_overcome() {
    let world = world().await;
    let faults = Faults::default();
    let _running = Running::with(&world, faults.clone());
    converged(&world).await;
    faults.conflict(3);
    let mut changed = service("llm", full());
    changed["spec"]["replicas"] = json!(2);
    world.apply(changed).await;
    let api = deployments(world.client());
    world
        .eventually("two replicas", async || {
            (api.get("llm-kserve").await.unwrap().spec?.replicas? == 2).then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_status_that_somebody_spoils_is_put_right() {
    let world = world().await;
    let _running = Running::start(&world);
    converged(&world).await;
    let spoil = json!({"status": {"conditions": [], "url": "http://nowhere"}});
    services(world.client())
        .patch_status("plain", &PatchParams::default(), &Patch::Merge(spoil))
        .await
        .unwrap();
    condition(&world, "plain", "Ready", Condition::is_true).await;
}

#[tokio::test]
async fn many_services_settle_with_few_writes_each() {
    const SERVICES: u64 = 20;
    let world = world().await;
    let running = Running::start(&world);
    for i in 0..SERVICES {
        world.apply(service(&format!("llm-{i}"), full())).await;
    }
    let api = services(world.client());
    world
        .eventually("every service is reported on", async || {
            let all = api.list(&kube::api::ListParams::default()).await.unwrap().items;
            let seen =
                all.iter().filter(|s| s.status.as_ref().is_some_and(|s| s.workloads.is_some())).count();
            seen as u64 == SERVICES
        })
        .await;
    world.settle(QUIET).await;
    // The writes are the finalizer, the children with an event each, the certificate once the addresses are known, and a few
    // statuses. The reference needs 28.5 writes and 27 dry-runs.
    let each = running.faults.writes() / SERVICES;
    assert!(each <= 34, "{each} writes per service");
}

#[tokio::test]
async fn what_an_autoscaler_decides_while_the_service_changes_is_kept() {
    let (world, _running) = started(service("scaled", json!({"replicas": null}))).await;
    condition(&world, "scaled", "PresetsCombined", Condition::is_true).await;
    let (api, owners) = (deployments(world.client()), services(world.client()));
    world.eventually("the Deployment", async || api.get_opt("scaled-kserve").await.unwrap()).await;
    for round in 2..12 {
        let label = format!("round-{round}");
        let change = Patch::Merge(json!({"spec": {"labels": {"round": label}}}));
        let scale = Patch::Merge(json!({"spec": {"replicas": round}}));
        let parameters = PatchParams::default();
        let (changed, scaled) = tokio::join!(
            owners.patch("scaled", &parameters, &change),
            api.patch("scaled-kserve", &parameters, &scale),
        );
        changed.unwrap();
        scaled.unwrap();
        world
            .eventually("the label", async || {
                let metadata = api.get("scaled-kserve").await.unwrap().spec?.template.metadata?;
                (metadata.labels?.get("round")? == &label).then_some(())
            })
            .await;
        let replicas = api.get("scaled-kserve").await.unwrap().spec.unwrap().replicas;
        assert_eq!(replicas, Some(round), "in {label}");
    }
}
