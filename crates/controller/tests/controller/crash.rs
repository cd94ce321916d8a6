//! Killed after every write in turn, the controller gets there all the same.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Secret, Service, ServiceAccount},
    rbac::v1::{Role, RoleBinding},
};
use kube::{Api, api::DeleteParams};
use longboat_api::{
    conditions::Condition,
    foreign::{httproute::HTTPRoute, inferencepool::InferencePool},
    v1alpha2::LLMInferenceService,
};
use longboat_testkit::{Faults, World};

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
    add("InferencePool", world.names::<InferencePool>(namespace).await);
    add("HTTPRoute", world.names::<HTTPRoute>(namespace).await);
    let services: Api<LLMInferenceService> = Api::namespaced(world.client(), namespace);
    let status = services.get("llm").await.unwrap().status.unwrap_or_default();
    let says = |c: &Condition| {
        format!("{} {:?} {} {}", c.type_, c.status, c.reason, c.message.replace(namespace, "NAMESPACE"))
    };
    (names, status.conditions.iter().map(says).collect())
}

async fn create(world: &World, namespace: &str) {
    world.namespace(namespace).await;
    let mut object = service("llm", full());
    object["metadata"]["namespace"] = namespace.into();
    world.apply(object).await;
}

#[tokio::test]
async fn killed_after_any_write_it_converges_to_the_same_children() {
    let world = world().await;
    // The writes that a service takes when nothing happens, and what they lead to.
    let running = Running::start(&world);
    world.settle(QUIET).await;
    let before = running.faults.writes();
    create(&world, "calm").await;
    world.settle(QUIET).await;
    let total = running.faults.writes() - before;
    let wanted = picture(&world, "calm").await;
    let calm: Api<LLMInferenceService> = Api::namespaced(world.client(), "calm");
    calm.delete("llm", &DeleteParams::default()).await.unwrap();
    world.eventually("it is gone", async || calm.get_opt("llm").await.unwrap().is_none().then_some(())).await;
    running.stop().await;
    assert!(wanted.0.len() >= 10, "{wanted:?}");
    assert!(total > 10, "{total} writes");

    for n in 1..=total {
        let namespace = format!("crash-{n}");
        let faults = Faults::default();
        faults.die_after(n);
        let doomed = Running::with(&world, faults.clone());
        create(&world, &namespace).await;
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
