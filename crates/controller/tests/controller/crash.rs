//! Killed after every write in turn, the controller gets there all the same.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Secret, Service, ServiceAccount},
    rbac::v1::{Role, RoleBinding},
};
use longboat_api::foreign::{httproute::HTTPRoute, inferencepool::InferencePool};
use longboat_testkit::{Faults, World};

use crate::setup::{QUIET, Running, full, service, services, world};

/// Names of all children, and what the status says of the service.
async fn picture(world: &World) -> (BTreeSet<String>, Vec<String>) {
    let mut names = BTreeSet::new();
    let mut add = |kind: &str, list: Vec<String>| names.extend(list.into_iter().map(|name| format!("{kind} {name}")));
    add("Deployment", world.names::<Deployment>("ns").await);
    add("Secret", world.names::<Secret>("ns").await);
    add("Service", world.names::<Service>("ns").await);
    add("ServiceAccount", world.names::<ServiceAccount>("ns").await);
    add("Role", world.names::<Role>("ns").await);
    add("RoleBinding", world.names::<RoleBinding>("ns").await);
    add("InferencePool", world.names::<InferencePool>("ns").await);
    add("HTTPRoute", world.names::<HTTPRoute>("ns").await);
    let status = services(world.client()).get("llm").await.unwrap().status.unwrap_or_default();
    let says = |c: &longboat_api::conditions::Condition| format!("{} {:?} {} {}", c.type_, c.status, c.reason, c.message);
    (names, status.conditions.iter().map(says).collect())
}

#[tokio::test]
async fn killed_after_any_write_it_converges_to_the_same_children() {
    let reference = {
        let world = world().await;
        let running = Running::start(&world);
        world.settle(QUIET).await;
        let presets = running.faults.writes();
        world.apply(service("llm", full())).await;
        world.settle(QUIET).await;
        (picture(&world).await, presets, running.faults.writes())
    };
    let (wanted, presets, total) = reference;
    assert!(wanted.0.len() >= 10, "{wanted:?}");
    assert!(total > presets + 10, "{total} writes");

    for n in 1..=(total - presets) {
        let world = world().await;
        // Presets first, so that the count starts with the service.
        let settled = Running::start(&world);
        world.settle(Duration::from_millis(300)).await;
        settled.stop().await;
        let faults = Faults::default();
        faults.die_after(n);
        let doomed = Running::with(&world, faults.clone());
        world.apply(service("llm", full())).await;
        world.settle(Duration::from_millis(300)).await;
        doomed.kill().await;
        let _running = Running::start(&world);
        let same = world
            .try_eventually(async || {
                let seen = picture(&world).await;
                (seen == wanted).then_some(())
            })
            .await;
        if same.is_none() {
            assert_eq!(picture(&world).await, wanted, "killed after write {n}");
        }
    }
}
