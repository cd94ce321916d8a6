//! Killed after every write in turn, the controller gets there all the same.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{Secret, Service, ServiceAccount},
    rbac::v1::{Role, RoleBinding},
    resource::v1::ResourceClaimTemplate,
};
use kube::{Api, api::DeleteParams};
use longboat_api::{
    conditions::Condition,
    foreign::{httproute::HTTPRoute, inferencepool::InferencePool, leaderworkerset::LeaderWorkerSet},
    v1alpha2::LLMInferenceService,
};
use longboat_testkit::{Faults, World};
use serde_json::{Value, json};

use crate::setup::{QUIET, Running, full, service, world};

/// How long the n-th write may take to come.
const REACHED: Duration = Duration::from_secs(2);

/// Names of all children in a namespace, and what the status says of the service.
async fn picture(world: &World, namespace: &str) -> (BTreeSet<String>, Vec<String>) {
    let mut names = BTreeSet::new();
    let mut add =
        |kind: &str, list: Vec<String>| names.extend(list.into_iter().map(|name| format!("{kind} {name}")));
    add("Deployment", world.names::<Deployment>(namespace).await);
    add("Secret", world.names::<Secret>(namespace).await);
    add("Service", world.names::<Service>(namespace).await);
    add("ServiceAccount", world.names::<ServiceAccount>(namespace).await);
    add("Role", world.names::<Role>(namespace).await);
    add("RoleBinding", world.names::<RoleBinding>(namespace).await);
    add("ResourceClaimTemplate", world.names::<ResourceClaimTemplate>(namespace).await);
    add("LeaderWorkerSet", world.names::<LeaderWorkerSet>(namespace).await);
    add("HorizontalPodAutoscaler", world.names::<HorizontalPodAutoscaler>(namespace).await);
    add("InferencePool", world.names::<InferencePool>(namespace).await);
    add("HTTPRoute", world.names::<HTTPRoute>(namespace).await);
    let services: Api<LLMInferenceService> = Api::namespaced(world.client(), namespace);
    let status = services.get("llm").await.unwrap().status.unwrap_or_default();
    let says = |c: &Condition| {
        format!("{} {:?} {} {}", c.type_, c.status, c.reason, c.message.replace(namespace, "NAMESPACE"))
    };
    (names, status.conditions.iter().map(says).collect())
}

async fn create(world: &World, namespace: &str, topology: &Topology) {
    world.namespace(namespace).await;
    let mut object = service("llm", topology.spec.clone());
    object["metadata"]["namespace"] = namespace.into();
    object["metadata"]["annotations"] = topology.annotations.clone();
    world.apply(object).await;
}

/// What is asked for, and how many children that has at least.
struct Topology {
    spec: Value,
    annotations: Value,
    children: usize,
}

#[tokio::test]
async fn killed_after_any_write_it_converges_to_the_same_children() {
    survives(Topology { spec: full(), annotations: json!({}), children: 10 }).await;
}

#[tokio::test]
async fn killed_after_any_write_prefill_and_decode_converge() {
    let spec = json!({
        "prefill": {},
        "router": {"route": {}, "gateway": {}, "scheduler": {"tokenizer": {}}},
        "model": {
            "uri": "hf://facebook/opt-125m",
            "lora": {"adapters": [{"name": "a", "uri": "hf://x/a"}, {"name": "b", "uri": "pvc://claim/b"}]},
        },
    });
    let annotations = json!({"serving.kserve.io/exp-dra-device-class": "gpu.example.com"});
    survives(Topology { spec, annotations, children: 17 }).await;
}

#[tokio::test]
async fn killed_after_any_write_groups_of_pods_converge() {
    let parallel = json!({"data": 4, "dataLocal": 2});
    let spec = json!({
        "parallelism": parallel, "worker": {"containers": [{"name": "main"}]},
        "prefill": {"parallelism": parallel, "worker": {"containers": [{"name": "main"}]}},
        "replicas": null, "scaling": {"maxReplicas": 3, "wva": {"hpa": {}}},
        "router": {"route": {}, "gateway": {}, "scheduler": {}},
    });
    survives(Topology { spec, annotations: json!({}), children: 15 }).await;
}

async fn survives(topology: Topology) {
    let world = world().await;
    // The writes that a service takes when nothing happens, and what they lead to.
    let running = Running::start(&world);
    world.settle(QUIET).await;
    let before = running.faults.writes();
    create(&world, "calm", &topology).await;
    world.settle(QUIET).await;
    let total = running.faults.writes() - before;
    let wanted = picture(&world, "calm").await;
    let calm: Api<LLMInferenceService> = Api::namespaced(world.client(), "calm");
    calm.delete("llm", &DeleteParams::default()).await.unwrap();
    world.eventually("it is gone", async || calm.get_opt("llm").await.unwrap().is_none().then_some(())).await;
    running.stop().await;
    assert!(wanted.0.len() >= topology.children, "{wanted:?}");
    assert!(total > 10, "{total} writes");

    for n in 1..=total {
        let namespace = format!("crash-{n}");
        let faults = Faults::default();
        faults.die_after(n);
        let doomed = Running::with(&world, faults.clone());
        create(&world, &namespace, &topology).await;
        // How many certificates and statuses are written depends on timing: the last writes may not come.
        let _ = tokio::time::timeout(REACHED, async {
            while !faults.is_dead() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        doomed.kill().await;
        let running = Running::start(&world);
        let same = async || (picture(&world, &namespace).await == wanted).then_some(());
        if world.try_eventually(same).await.is_none() {
            assert_eq!(picture(&world, &namespace).await, wanted, "killed after write {n}");
        }
        // Out of the way, so that the next start has one service to look at, not all before it.
        let services: Api<LLMInferenceService> = Api::namespaced(world.client(), &namespace);
        services.delete("llm", &DeleteParams::default()).await.unwrap();
        world
            .eventually("the service is gone", async || {
                services.get_opt("llm").await.unwrap().is_none().then_some(())
            })
            .await;
        running.stop().await;
    }
}
