//! The order of writes for a service.

use std::time::Duration;

use longboat_api::conditions::Condition;
use longboat_controller::Args;
use serde_json::Value;

use crate::{
    setup::{Running, condition, deployments, full, service, services, world},
    tap::Tap,
};

#[tokio::test]
async fn workloads_do_not_wait_for_bindings_that_their_pods_do_not_use() {
    let world = world().await;
    let tap = Tap::new();
    tap.hold("/rolebindings");
    let running = Running::with_client(Args::default(), tap.client(&world));
    world.apply(service("llm", full())).await;
    let api = deployments(world.client());
    world.eventually("the model server", async || api.get_opt("llm-kserve").await.unwrap()).await;
    let is_held =
        || tap.log().iter().any(|asked| asked.method == "POST" && asked.uri.contains("/rolebindings"));
    world.eventually("the binding is asked for", async || is_held()).await;
    let picker = async || api.get_opt("llm-kserve-router-scheduler").await.unwrap();
    assert!(picker().await.is_none(), "the picker has no rights yet");
    tap.release();
    world.eventually("the picker", picker).await;
    running.stop().await;
}

#[tokio::test]
async fn a_status_has_what_changed_while_children_were_written() {
    let world = world().await;
    let tap = Tap::new();
    tap.hold("/httproutes");
    let running = Running::with_client(Args::default(), tap.client(&world));
    world.apply(service("llm", full())).await;
    let is_held =
        || tap.log().iter().any(|asked| asked.method == "POST" && asked.uri.contains("/httproutes"));
    world.eventually("the route is asked for", async || is_held()).await;
    // Deployments are written before routes.
    world.make_available("ns").await;
    // The watch reports the change at once, but nothing shows when it has been processed.
    tokio::time::sleep(Duration::from_millis(500)).await;
    tap.release();
    condition(&world, "llm", "MainWorkloadReady", Condition::is_true).await;
    let api = services(world.client());
    world
        .eventually("the workloads", async || api.get("llm").await.unwrap().status?.workloads.map(|_| ()))
        .await;
    let statuses =
        tap.log().into_iter().filter(|asked| asked.method == "PATCH" && asked.uri.contains("/status"));
    let of_service = statuses.filter(|asked| asked.uri.contains("/llminferenceservices/"));
    let told: Vec<Value> = of_service
        // The first operation tests the uid.
        .map(|asked| serde_json::from_slice::<Value>(&asked.body).unwrap()[1]["value"]["workloads"].clone())
        .filter(|workloads| !workloads.is_null())
        .collect();
    assert_eq!(told[0]["primary"]["readyReplicas"], 1, "{told:#?}");
    running.stop().await;
}
