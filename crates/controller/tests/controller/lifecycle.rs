//! The lifecycle of a service from creation to deletion.

use futures::StreamExt;
use k8s_openapi::api::{
    core::v1::{ConfigMap, Event, Secret, Service, ServiceAccount},
    rbac::v1::ClusterRoleBinding,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, WatchEvent, WatchParams},
};
use longboat_api::conditions::Condition;
use longboat_api::foreign::{httproute::HTTPRoute, inferencepool::InferencePool};
use serde_json::json;

use crate::setup::{QUIET, Running, condition, deployments, full, service, services, started, world};

#[tokio::test]
async fn a_service_gets_its_children_and_becomes_ready() {
    let (world, _running) = started(service("llm", json!({}))).await;

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
        status.addresses[0].url.as_deref(),
        Some("http://llm-kserve-workload-svc.ns.svc.cluster.local")
    );
}

#[tokio::test]
async fn conditions_and_counts_come_from_one_version_of_the_deployment() {
    let (world, _running) = started(service("llm", json!({}))).await;
    let api = deployments(world.client());
    world.eventually("the Deployment", async || api.get_opt("llm-kserve").await.unwrap()).await;
    let mut watch = services(world.client()).watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let (last, params) = (120_u64, PatchParams::default());
    let changes = async {
        for version in 0..=last {
            let available = if version == last { 7 } else { version % 3 };
            let status = if available > 0 { "True" } else { "False" };
            let status = json!({"status": {
                "replicas": available, "readyReplicas": available, "availableReplicas": available,
                "conditions": [{"type": "Available", "status": status, "reason": "R", "message": version.to_string()}],
            }});
            api.patch_status("llm-kserve", &params, &Patch::Merge(status)).await.unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(version % 4)).await;
        }
    };
    let looks = async {
        let mut seen = 0;
        while let Some(Ok(event)) = watch.next().await {
            let WatchEvent::Modified(service) = event else { continue };
            let Some(status) = service.status else { continue };
            let condition = |type_: &str| status.conditions.iter().find(|condition| condition.type_ == type_);
            let (Some(main), Some(ready)) = (condition("MainWorkloadReady"), condition("Ready")) else {
                continue;
            };
            let primary = status.workloads.as_ref().and_then(|all| all.primary.as_ref());
            let count = primary.and_then(|primary| primary.ready_replicas);
            if let Some(count) = count.filter(|_| main.reason != "Progressing") {
                seen += 1;
                assert_eq!((main.is_true(), ready.is_true()), (count > 0, count > 0), "{status:#?}");
            }
            if count == Some(7) {
                return seen;
            }
        }
        panic!("the watch ended")
    };
    let ((), seen) = tokio::join!(changes, looks);
    assert!(seen > 10, "only {seen} statuses were written");
}

#[tokio::test]
async fn a_service_with_router_gets_pool_picker_and_route() {
    let (world, _running) = started(service("llm", full())).await;
    world
        .eventually("the route", async || world.names::<HTTPRoute>("ns").await == ["llm-kserve-route"])
        .await;
    assert_eq!(world.names::<InferencePool>("ns").await, ["llm-inference-pool"]);
    let deployments = world.names::<k8s_openapi::api::apps::v1::Deployment>("ns").await;
    assert_eq!(deployments, ["llm-kserve", "llm-kserve-router-scheduler"]);
    assert!(world.names::<ServiceAccount>("ns").await.contains(&"llm-epp-sa".to_owned()));
    assert!(world.names::<Service>("ns").await.contains(&"llm-epp-service".to_owned()));
}

#[tokio::test]
async fn a_change_of_the_spec_reaches_the_child_and_only_that() {
    let (world, _running) = started(service("llm", full())).await;
    world.eventually("the route", async || !world.names::<HTTPRoute>("ns").await.is_empty()).await;
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
    let (world, _running) = started(service("llm", full())).await;
    world.eventually("the route", async || !world.names::<HTTPRoute>("ns").await.is_empty()).await;
    world.apply(service("llm", json!({}))).await;
    world
        .eventually("only the workload is left", async || {
            let deployments = world.names::<k8s_openapi::api::apps::v1::Deployment>("ns").await;
            let routes = world.names::<HTTPRoute>("ns").await;
            let pools = world.names::<InferencePool>("ns").await;
            deployments == ["llm-kserve"] && routes.is_empty() && pools.is_empty()
        })
        .await;
}

#[tokio::test]
async fn a_deleted_service_leaves_nothing_behind() {
    let (world, _running) = started(service("llm", full())).await;
    world.eventually("the route", async || !world.names::<HTTPRoute>("ns").await.is_empty()).await;
    let api = services(world.client());
    api.delete("llm", &DeleteParams::default()).await.unwrap();
    world.eventually("the service is gone", async || api.get_opt("llm").await.unwrap().is_none()).await;
    world
        .eventually("its children are gone", async || {
            let deployments = world.names::<k8s_openapi::api::apps::v1::Deployment>("ns").await;
            let services = world.names::<Service>("ns").await;
            let secrets = world.names::<Secret>("ns").await;
            let bindings: Api<ClusterRoleBinding> = Api::all(world.client());
            let ours = ListParams::default().labels("app.kubernetes.io/part-of=llminferenceservice");
            let bindings = bindings.list(&ours).await.unwrap().items;
            deployments.is_empty() && services.is_empty() && secrets.is_empty() && bindings.is_empty()
        })
        .await;
}

#[tokio::test]
async fn a_deleted_child_comes_back() {
    let (world, _running) = started(service("llm", json!({}))).await;
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
    let (world, _running) = started(service("llm", json!({}))).await;
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
    let (world, _running) = started(service("llm", full())).await;
    let api = deployments(world.client());
    world.eventually("the Deployment", async || api.get_opt("llm-kserve").await.unwrap()).await;
    let mut stopped = service("llm", full());
    stopped["metadata"]["annotations"] = json!({"serving.kserve.io/stop": "true"});
    world.apply(stopped).await;
    condition(&world, "llm", "MainWorkloadReady", |c| c.reason == "Stopped").await;
    world
        .eventually("no Deployments", async || {
            world.names::<k8s_openapi::api::apps::v1::Deployment>("ns").await.is_empty()
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
async fn the_cluster_role_binding_of_somebody_else_is_left_alone_and_the_service_gets_another() {
    let world = world().await;
    let theirs = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "ns-llm-epp-auth-rb"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
    });
    let before = world.apply(theirs).await.metadata.resource_version;
    let running = Running::start(&world);
    world.apply(service("llm", full())).await;
    let api: Api<ClusterRoleBinding> = Api::all(world.client());
    let own = async || {
        let found = api.list(&ListParams::default().labels("app.kubernetes.io/name=llm")).await.unwrap();
        found.items.into_iter().filter_map(|binding| binding.metadata.name).collect::<Vec<_>>()
    };
    let bound = world.eventually("a binding", async || Some(own().await).filter(|own| own.len() == 1)).await;
    assert!(bound[0].starts_with("ns-llm-epp-auth-rb:"), "{bound:?}");
    // A controller that starts again does not see the object of somebody else.
    running.stop().await;
    let _running = Running::start(&world);
    world.settle(QUIET).await;
    services(world.client()).delete("llm", &DeleteParams::default()).await.unwrap();
    world.eventually("the binding is gone", async || own().await.is_empty()).await;
    assert_eq!(api.get("ns-llm-epp-auth-rb").await.unwrap().metadata.resource_version, before);
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
    let (world, _running) = started(service("llm", json!({}))).await;
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
            api.get(&name).await.unwrap().spec.model.name.as_ref() == Some(&name)
        })
        .await;
}

#[tokio::test]
async fn a_deployment_whose_selector_is_in_the_way_makes_way_without_its_pods() {
    let (world, running) = started(service("llm", json!({}))).await;
    let api = deployments(world.client());
    let made = world.eventually("the Deployment", async || api.get_opt("llm-kserve").await.unwrap()).await;
    running.stop().await;
    // The form in which the reference creates it: the selector contains the role.
    let mut old = made.clone();
    old.metadata.resource_version = None;
    old.metadata.uid = None;
    old.spec
        .as_mut()
        .unwrap()
        .selector
        .match_labels
        .as_mut()
        .unwrap()
        .insert("llm-d.ai/role".into(), "both".into());
    api.delete("llm-kserve", &DeleteParams::background()).await.unwrap();
    world.eventually("it is gone", async || api.get_opt("llm-kserve").await.unwrap().is_none()).await;
    let old = api.create(&kube::api::PostParams::default(), &old).await.unwrap();
    let template = serde_json::to_value(&old.spec.as_ref().unwrap().template).unwrap();
    world
        .apply(json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": "llm-kserve-1", "namespace": "ns", "labels": template["metadata"]["labels"],
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "Deployment", "name": "llm-kserve", "uid": old.metadata.uid,
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "selector": {"matchLabels": template["metadata"]["labels"]},
                "template": template,
            },
        }))
        .await;

    let _running = Running::start(&world);
    world.settle(QUIET).await;
    assert_eq!(
        api.get("llm-kserve").await.unwrap().metadata.uid,
        old.metadata.uid,
        "what can be taken over is"
    );
    world.apply(service("llm", json!({"prefill": {}}))).await;
    let selects = |deployment: &k8s_openapi::api::apps::v1::Deployment| {
        deployment.spec.as_ref().and_then(|spec| spec.selector.match_labels.clone()).unwrap_or_default()
    };
    let new = world
        .eventually("another Deployment", async || {
            api.get_opt("llm-kserve").await.unwrap().filter(|new| new.metadata.uid != old.metadata.uid)
        })
        .await;
    assert!(!selects(&new).contains_key("llm-d.ai/role"));
    world.settle(QUIET).await;
    let sets: Api<k8s_openapi::api::apps::v1::ReplicaSet> = Api::namespaced(world.client(), "ns");
    let set = sets.get("llm-kserve-1").await.unwrap();
    let owners = set.metadata.owner_references.unwrap_or_default();
    assert!(owners.is_empty(), "its pods are there for the new Deployment to take over: {owners:?}");
    let labels = set.metadata.labels.unwrap_or_default();
    assert!(selects(&new).iter().all(|(key, value)| labels.get(key) == Some(value)), "which selects them");
}

#[tokio::test]
async fn members_of_a_group_share_their_traffic_come_to_rest_and_hand_over() {
    hand_over(&json!({})).await;
}

#[tokio::test]
async fn a_member_that_cannot_be_composed_hands_over_too() {
    hand_over(&json!({"spec": {"baseRefs": [{"name": "missing"}]}})).await;
}

/// Two members share their traffic. Then the change is made to one of them, and the other one is deleted.
async fn hand_over(change: &serde_json::Value) {
    let world = world().await;
    let running = Running::start(&world);
    let member = |name: &str, weight: i32| {
        let route = json!({"route": {"group": "g", "weight": weight}, "gateway": {}});
        let model = json!({"uri": "hf://o/m", "name": "m"});
        service(name, json!({"router": route, "model": model}))
    };
    world.apply(member("blue", 90)).await;
    world.apply(member("green", 10)).await;
    let routes: Api<HTTPRoute> = Api::namespaced(world.client(), "ns");
    let shares = async |name: &str| -> Option<Vec<(String, i32)>> {
        let route = routes.get_opt(&format!("{name}-kserve-route")).await.unwrap()?;
        let rule =
            route.spec.rules.iter().find(|rule| rule.backend_refs.iter().any(|b| b.weight != Some(1)))?;
        let share = |b: &longboat_api::foreign::httproute::HTTPBackendRef| {
            (b.backend.name.clone(), b.weight.unwrap())
        };
        Some(rule.backend_refs.iter().map(share).collect())
    };
    world.eventually("both routes", async || shares("blue").await.zip(shares("green").await)).await;
    world.make_available("ns").await;
    let both =
        vec![("blue-kserve-workload-svc".to_owned(), 90), ("green-kserve-workload-svc".to_owned(), 10)];
    for name in ["blue", "green"] {
        world.eventually("both share", async || shares(name).await.as_ref() == Some(&both)).await;
    }
    // A gateway that accepts each version of a route must not cause another version.
    for _ in 0..3 {
        world.accept_routes("ns").await;
        world.settle(QUIET).await;
    }
    let writes = running.faults.writes();
    world.accept_routes("ns").await;
    world.settle(QUIET).await;
    assert_eq!(running.faults.writes(), writes, "an accepted group is at rest");

    services(world.client()).patch("blue", &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    world.settle(QUIET).await;
    services(world.client()).delete("green", &DeleteParams::default()).await.unwrap();
    let alone = vec![("blue-kserve-workload-svc".to_owned(), 90)];
    world
        .eventually("green is gone", async || {
            services(world.client()).get_opt("green").await.unwrap().is_none()
        })
        .await;
    assert_eq!(shares("blue").await, Some(alone), "nobody sends to a service that is gone");
}
