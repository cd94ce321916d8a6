//! From creation to deletion.

use k8s_openapi::api::core::v1::{ConfigMap, Event, Secret, Service, ServiceAccount};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use longboat_api::conditions::Condition;
use longboat_api::foreign::{httproute::HTTPRoute, inferencepool::InferencePool};
use serde_json::json;

use crate::setup::{QUIET, Running, condition, deployments, full, service, services, world};

#[tokio::test]
async fn a_service_gets_its_children_and_becomes_ready() {
    let world = world().await;
    let _running = Running::start(&world);
    world.apply(service("llm", json!({}))).await;

    let wanted = |c: &longboat_api::conditions::Condition| c.reason == "Progressing";
    condition(&world, "llm", "MainWorkloadReady", wanted).await;
    assert_eq!(world.names::<k8s_openapi::api::apps::v1::Deployment>("ns").await, ["llm-kserve"]);
    assert_eq!(world.names::<Service>("ns").await, ["llm-kserve-workload-svc"]);
    assert_eq!(world.names::<Secret>("ns").await, ["llm-kserve-self-signed-certs"]);
    let stored = services(world.client()).get("llm").await.unwrap();
    assert_eq!(stored.metadata.finalizers.unwrap(), ["serving.kserve.io/llmisvc-finalizer"]);

    world.make_available("ns").await;
    condition(&world, "llm", "Ready", Condition::is_true).await;
    let status = services(world.client()).get("llm").await.unwrap().status.unwrap();
    assert_eq!(Some(status.observed_generation), stored.metadata.generation);
    assert_eq!(
        status.addresses[0].address.url.as_deref(),
        Some("http://llm-kserve-workload-svc.ns.svc.cluster.local")
    );
}

#[tokio::test]
async fn a_service_with_router_gets_pool_picker_and_route() {
    let world = world().await;
    let _running = Running::start(&world);
    world.apply(service("llm", full())).await;
    world
        .eventually("the route", async || {
            (world.names::<HTTPRoute>("ns").await == ["llm-kserve-route"]).then_some(())
        })
        .await;
    assert_eq!(world.names::<InferencePool>("ns").await, ["llm-inference-pool"]);
    let deployments = world.names::<k8s_openapi::api::apps::v1::Deployment>("ns").await;
    assert_eq!(deployments, ["llm-kserve", "llm-kserve-router-scheduler"]);
    assert!(world.names::<ServiceAccount>("ns").await.contains(&"llm-epp-sa".to_owned()));
    assert!(world.names::<Service>("ns").await.contains(&"llm-epp-service".to_owned()));
}

#[tokio::test]
async fn a_change_of_the_spec_reaches_the_child_and_only_that() {
    let world = world().await;
    let _running = Running::start(&world);
    world.apply(service("llm", full())).await;
    world
        .eventually("the route", async || (!world.names::<HTTPRoute>("ns").await.is_empty()).then_some(()))
        .await;
    world.settle(QUIET).await;
    let secret: Api<Secret> = Api::namespaced(world.client(), "ns");
    let before = secret.get("llm-kserve-self-signed-certs").await.unwrap().metadata.resource_version;

    let mut changed = service("llm", full());
    changed["spec"]["replicas"] = json!(3);
    world.apply(changed).await;
    let api = deployments(world.client());
    world
        .eventually("three replicas", async || {
            let replicas = api.get("llm-kserve").await.unwrap().spec?.replicas?;
            (replicas == 3).then_some(())
        })
        .await;
    world.settle(QUIET).await;
    assert_eq!(secret.get("llm-kserve-self-signed-certs").await.unwrap().metadata.resource_version, before);
}

#[tokio::test]
async fn what_the_spec_no_longer_asks_for_goes() {
    let world = world().await;
    let _running = Running::start(&world);
    world.apply(service("llm", full())).await;
    world
        .eventually("the route", async || (!world.names::<HTTPRoute>("ns").await.is_empty()).then_some(()))
        .await;
    world.apply(service("llm", json!({}))).await;
    world
        .eventually("only the workload is left", async || {
            let deployments = world.names::<k8s_openapi::api::apps::v1::Deployment>("ns").await;
            let routes = world.names::<HTTPRoute>("ns").await;
            let pools = world.names::<InferencePool>("ns").await;
            (deployments == ["llm-kserve"] && routes.is_empty() && pools.is_empty()).then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_deleted_service_leaves_nothing_behind() {
    let world = world().await;
    let _running = Running::start(&world);
    world.apply(service("llm", full())).await;
    world
        .eventually("the route", async || (!world.names::<HTTPRoute>("ns").await.is_empty()).then_some(()))
        .await;
    let api = services(world.client());
    api.delete("llm", &DeleteParams::default()).await.unwrap();
    world
        .eventually("the service is gone", async || api.get_opt("llm").await.unwrap().is_none().then_some(()))
        .await;
    world
        .eventually("its children are gone", async || {
            let deployments = world.names::<k8s_openapi::api::apps::v1::Deployment>("ns").await;
            let services = world.names::<Service>("ns").await;
            let secrets = world.names::<Secret>("ns").await;
            let bindings: Api<k8s_openapi::api::rbac::v1::ClusterRoleBinding> = Api::all(world.client());
            let ours = ListParams::default().labels("app.kubernetes.io/part-of=llminferenceservice");
            let bindings = bindings.list(&ours).await.unwrap().items;
            (deployments.is_empty() && services.is_empty() && secrets.is_empty() && bindings.is_empty())
                .then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_deleted_child_comes_back() {
    let world = world().await;
    let _running = Running::start(&world);
    world.apply(service("llm", json!({}))).await;
    let api = deployments(world.client());
    let uid = world
        .eventually("the Deployment", async || api.get_opt("llm-kserve").await.unwrap()?.metadata.uid)
        .await;
    api.delete("llm-kserve", &DeleteParams::default()).await.unwrap();
    world
        .eventually("another Deployment", async || {
            api.get_opt("llm-kserve").await.unwrap()?.metadata.uid.filter(|new| *new != uid)
        })
        .await;
}

#[tokio::test]
async fn an_edited_child_is_put_right() {
    let world = world().await;
    let _running = Running::start(&world);
    world.apply(service("llm", json!({}))).await;
    let api = deployments(world.client());
    world.eventually("the Deployment", async || api.get_opt("llm-kserve").await.unwrap()).await;
    let edit = json!({"spec": {"replicas": 7}});
    api.patch("llm-kserve", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    world
        .eventually("one replica again", async || {
            (api.get("llm-kserve").await.unwrap().spec?.replicas? == 1).then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_stopped_service_has_no_workload_and_comes_back() {
    let world = world().await;
    let _running = Running::start(&world);
    world.apply(service("llm", full())).await;
    let api = deployments(world.client());
    world.eventually("the Deployment", async || api.get_opt("llm-kserve").await.unwrap()).await;
    let mut stopped = service("llm", full());
    stopped["metadata"]["annotations"] = json!({"serving.kserve.io/stop": "true"});
    world.apply(stopped).await;
    condition(&world, "llm", "MainWorkloadReady", |c| c.reason == "Stopped").await;
    world
        .eventually("no Deployments", async || {
            world.names::<k8s_openapi::api::apps::v1::Deployment>("ns").await.is_empty().then_some(())
        })
        .await;
    world.apply(service("llm", full())).await;
    world.eventually("the Deployment again", async || api.get_opt("llm-kserve").await.unwrap()).await;
}

#[tokio::test]
async fn an_object_of_somebody_else_is_left_alone_and_named() {
    let world = world().await;
    world.apply(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "llm-kserve-workload-svc", "namespace": "ns"},
        "spec": {"ports": [{"port": 1}]},
    })).await;
    let _running = Running::start(&world);
    world.apply(service("llm", json!({}))).await;
    let found =
        condition(&world, "llm", "WorkloadsReady", |c| c.is_false() && c.message.contains("not controlled"))
            .await;
    assert_eq!(found.reason, "ReconcileWorkloadServiceError");
    let api: Api<Service> = Api::namespaced(world.client(), "ns");
    let port = api.get("llm-kserve-workload-svc").await.unwrap().spec.unwrap().ports.unwrap()[0].port;
    assert_eq!(port, 1);
}

#[tokio::test]
async fn platform_settings_that_come_late_wake_the_service() {
    let world = world().await;
    let settings: Api<ConfigMap> = Api::namespaced(world.client(), "kserve");
    let mut kept = settings.get("inferenceservice-config").await.unwrap();
    settings.delete("inferenceservice-config", &DeleteParams::default()).await.unwrap();
    let _running = Running::start(&world);
    world.apply(service("llm", json!({}))).await;
    condition(&world, "llm", "PresetsCombined", |c| {
        c.is_false() && c.message.contains("inferenceservice-config")
    })
    .await;
    kept.metadata.resource_version = None;
    kept.metadata.uid = None;
    settings.create(&kube::api::PostParams::default(), &kept).await.unwrap();
    condition(&world, "llm", "PresetsCombined", Condition::is_true).await;
}

#[tokio::test]
async fn writes_and_readiness_are_told_as_events_once() {
    let world = world().await;
    let _running = Running::start(&world);
    world.apply(service("llm", json!({}))).await;
    let api = deployments(world.client());
    world.eventually("the Deployment", async || api.get_opt("llm-kserve").await.unwrap()).await;
    world.settle(QUIET).await;
    world.make_available("ns").await;
    condition(&world, "llm", "Ready", Condition::is_true).await;
    world.settle(QUIET).await;
    let events: Api<Event> = Api::namespaced(world.client(), "ns");
    let mut told: Vec<String> = events
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .into_iter()
        .map(|e| {
            format!("{} {} {} x{}", e.type_.unwrap(), e.reason.unwrap(), e.message.unwrap(), e.count.unwrap())
        })
        .collect();
    told.sort();
    told.retain(|line| !line.contains("Updated v1.Secret"));
    assert_eq!(
        told,
        [
            "Normal Created Created v1.Deployment ns/llm-kserve x1",
            "Normal Created Created v1.Secret ns/llm-kserve-self-signed-certs x1",
            "Normal Created Created v1.Service ns/llm-kserve-workload-svc x1",
            "Normal LLMInferenceServiceReady LLMInferenceService [llm] is Ready x1",
        ]
    );
}

#[tokio::test]
async fn the_generated_name_becomes_the_model_name() {
    let world = world().await;
    let _running = Running::start(&world);
    let mut object = service("x", json!({}));
    object["metadata"] = json!({"generateName": "llm-", "namespace": "ns"});
    let api = services(world.client());
    let object = serde_json::from_value(object).unwrap();
    let created = api.create(&kube::api::PostParams::default(), &object).await.unwrap();
    let name = created.metadata.name.unwrap();
    world
        .eventually("the model's name", async || {
            (api.get(&name).await.unwrap().spec.model.name.as_ref() == Some(&name)).then_some(())
        })
        .await;
}
