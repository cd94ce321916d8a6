//! Children that the API server would refuse.

use std::collections::BTreeSet;

use http::Method;
use longboat_api::conditions::Condition;
use longboat_controller::Args;
use serde_json::{Value, json};

use crate::{
    setup::{QUIET, Running, condition, deployments, full, service, started, world},
    tap::Tap,
};

/// The requests that wrote something other than services, configs and events. A dry run writes nothing.
fn writes(tap: &Tap) -> Vec<String> {
    let asked = tap.log().into_iter().filter(|asked| {
        asked.method != "GET"
            && !asked.uri.contains("dryRun=All")
            && !asked.uri.contains("/llminferenceservices/")
            && !asked.uri.contains("/llminferenceserviceconfigs/")
            && !asked.uri.contains("/events")
    });
    asked.map(|asked| format!("{} {}", asked.method, asked.uri)).collect()
}

fn is_refused(found: &Condition) -> bool {
    found.is_false() && found.reason == "ReconcileSingleNodeWorkloadError"
}

#[tokio::test]
async fn a_service_with_a_refused_child_is_not_half_written() {
    let world = world().await;
    let tap = Tap::new();
    let running = Running::with_client(Args::default(), tap.client(&world));
    let mut broken = full();
    broken["template"] = json!({"containers": [{"name": "vllm", "args": ["--max-model-len", "10"]}]});
    world.apply(service("llm", broken)).await;
    let refused = condition(&world, "llm", "MainWorkloadReady", is_refused).await;
    for part in [
        "spec.template.spec.containers[",
        "].image: Required value",
        "spec.template.containers[name=vllm].image",
    ] {
        assert!(refused.message.contains(part), "{}", refused.message);
    }
    world.settle(QUIET).await;
    assert_eq!(writes(&tap), Vec::<String>::new());
    assert!(deployments(world.client()).get_opt("llm-kserve").await.unwrap().is_none());

    world.apply(service("llm", full())).await;
    let api = deployments(world.client());
    world.eventually("the Deployment", async || api.get_opt("llm-kserve").await.unwrap()).await;
    running.stop().await;
}

#[tokio::test]
async fn a_running_service_keeps_its_children_when_a_change_is_refused() {
    let (world, running) = started(service("llm", full())).await;
    let api = deployments(world.client());
    for name in ["llm-kserve", "llm-kserve-router-scheduler"] {
        world.eventually("the Deployment", async || api.get_opt(name).await.unwrap()).await;
    }
    world.make_available("ns").await;
    condition(&world, "llm", "MainWorkloadReady", Condition::is_true).await;
    world.settle(QUIET).await;
    let before = api.get("llm-kserve").await.unwrap();

    // The router goes with the same change.
    let probe = json!({"name": "main", "livenessProbe": {"exec": {"command": ["true"]}}});
    world.apply(service("llm", json!({"template": {"containers": [probe]}}))).await;
    let refused = condition(&world, "llm", "MainWorkloadReady", is_refused).await;
    assert!(refused.message.contains("may not specify more than 1 handler type"), "{}", refused.message);
    world.settle(QUIET).await;
    assert_eq!(api.get("llm-kserve").await.unwrap().spec, before.spec);
    assert!(api.get_opt("llm-kserve-router-scheduler").await.unwrap().is_some(), "nothing is deleted");
    running.stop().await;
}

#[tokio::test]
async fn a_child_whose_deletion_is_refused_is_in_the_status_until_it_is_gone() {
    let world = world().await;
    let tap = Tap::new();
    let running = Running::with_client(Args::default(), tap.client(&world));
    world.apply(service("llm", full())).await;
    let picker = "llm-kserve-router-scheduler";
    let api = deployments(world.client());
    world.eventually("the picker", async || api.get_opt(picker).await.unwrap()).await;
    tap.forbid(Some((Method::DELETE, "/deployments/llm-kserve-router-scheduler")));
    world.apply(service("llm", json!({}))).await;
    let is_refused = |found: &Condition| found.is_false() && found.message.contains("failed to delete");
    let refused = condition(&world, "llm", "RouterReady", is_refused).await;
    assert!(refused.message.ends_with("a policy says no"), "{}", refused.message);
    assert!(api.get_opt(picker).await.unwrap().is_some());

    tap.forbid(None);
    world.eventually("no picker", async || api.get_opt(picker).await.unwrap().is_none().then_some(())).await;
    condition(&world, "llm", "RouterReady", |found| !found.message.contains("failed to delete")).await;
    running.stop().await;
}

#[tokio::test]
async fn a_refused_status_has_one_reason_of_events() {
    let world = world().await;
    let tap = Tap::new();
    tap.forbid(Some((Method::PATCH, "/llminferenceservices/llm/status")));
    let running = Running::with_client(Args::default(), tap.client(&world));
    world.apply(service("llm", json!({}))).await;
    let warnings = || {
        let events = tap.log().into_iter().filter(|sent| sent.uri.contains("/events"));
        let events = events.filter_map(|sent| serde_json::from_slice::<Value>(&sent.body).ok());
        let events = events.filter(|event| event["type"] == "Warning");
        events.map(|event| event["reason"].as_str().unwrap_or_default().to_owned()).collect::<BTreeSet<_>>()
    };
    world.eventually("an event", async || (!warnings().is_empty()).then_some(())).await;
    // A second try, of which another event could come.
    let tries =
        || tap.log().iter().filter(|sent| sent.uri.contains("/llminferenceservices/llm/status")).count();
    world.eventually("a second try", async || (tries() > 1).then_some(())).await;
    world.settle(QUIET).await;
    assert_eq!(warnings(), BTreeSet::from(["UpdateFailed".to_owned()]));
    running.stop().await;
}
