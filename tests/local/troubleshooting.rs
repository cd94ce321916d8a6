//! Runs each command of the troubleshooting section of KServe's status reference.

use crate::{
    http,
    local_cluster::{LocalCluster, Running},
    tools,
    wait::until,
};

#[test]
fn every_command_of_the_troubleshooting_guide_answers() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::shared();
    let status = |path: &str| world.ask(&["get", "llmisvc", "qwen", "-o", &format!("jsonpath={path}")]);

    let conditions =
        status(r#"{range .status.conditions[*]}{.type}={.status} {.reason} {.message}{"\n"}{end}"#);
    let named: Vec<_> = conditions.lines().map(str::trim).collect();
    let expected = [
        "HTTPRoutesReady=True",
        "InferencePoolReady=True",
        "MainWorkloadReady=True",
        "PresetsCombined=True",
        "Ready=True",
        "RouterReady=True",
        "SchedulerWorkloadReady=True",
        "WorkloadsReady=True",
    ];
    assert_eq!(named, expected);
    world.ask(&["get", "llminferenceserviceconfig", "kserve-config-llm-template", "-n", "kserve"]);

    let primary = status("{.status.workloads.primary.kind}/{.status.workloads.primary.name}");
    let described = world.ask(&["describe", &primary]);
    for part in ["1 desired | 1 updated | 1 total | 1 available", "NewReplicaSetAvailable", "/mnt/models"] {
        assert!(described.contains(part), "{described}");
    }
    let selector = "app.kubernetes.io/name=qwen,app.kubernetes.io/part-of=llminferenceservice";
    let pods =
        world.ask(&["get", "pods", "-l", selector, "--sort-by=.metadata.creationTimestamp", "--no-headers"]);
    assert_eq!(pods.lines().count(), 2, "{pods}");

    let gateways = status(r#"{range .status.router.gateways[*]}{.name}/{.namespace}{"\n"}{end}"#);
    assert_eq!(gateways, "kserve-ingress-gateway/kserve\n");
    let gateway = world.ask(&["get", "gateway", "kserve-ingress-gateway", "-n", "kserve"]);
    assert!(gateway.contains("True"), "{gateway}");
    let selector = "app.kubernetes.io/name=qwen,app.kubernetes.io/component=llminferenceservice-router";
    assert!(world.ask(&["get", "httproute", "-l", selector]).contains("qwen-kserve-route"));

    let url = status("{.status.url}");
    assert_eq!(url, world.url);
    assert_eq!(http::get(&format!("{url}/v1/models")).status, 200);
    let addresses = status(r#"{range .status.addresses[*]}{.url} (via {.origin.name}){"\n"}{end}"#);
    assert!(addresses.contains(&format!("{url} (via kserve-ingress-gateway)")), "{addresses}");

    let service = format!("svc/{}", status("{.status.workloads.service.name}"));
    let forward = Running::start(world.kubectl().args(["port-forward", &service, ":8000"]));
    let port = until("port-forward", || {
        let said = forward.stdout();
        Some(said.split_once("127.0.0.1:")?.1.split_once(' ')?.0.to_owned())
    });
    for _ in 0..2 {
        assert_eq!(http::get(&format!("http://127.0.0.1:{port}/v1/models")).status, 200);
    }
    drop(forward);

    let primary = format!("deploy/{}", status("{.status.workloads.primary.name}"));
    let logs = world.ask(&["logs", &primary, "-c", "main", "--tail=100"]);
    assert!(logs.contains("simulated answers"), "{logs}");
    assert!(!logs.contains('\u{1b}'), "no colours in logs: {logs}");
    assert_eq!(world.ask(&["logs", &primary, "-c", "main", "--tail=1"]).lines().count(), 1);
    let selector = "app.kubernetes.io/name=qwen,app.kubernetes.io/part-of=llminferenceservice";
    assert!(world.ask(&["logs", "-l", selector, "-c", "main", "--tail=100"]).contains("simulated answers"));
    let scheduler = format!("deploy/{}", status("{.status.workloads.scheduler.name}"));
    assert!(!world.ask(&["logs", &scheduler, "-c", "main", "--tail=100"]).is_empty());

    let field = "--field-selector=involvedObject.name=qwen";
    let events = world.ask(&["get", "events", "-n", "default", "--sort-by=.lastTimestamp", field]);
    assert!(events.contains("LLMInferenceServiceReady"), "{events}");
    assert!(!events.contains("pod/"), "only of the service: {events}");
}

#[test]
fn logs_can_be_followed() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::shared();
    let mut follow =
        Running::start(world.kubectl().args(["logs", "-f", "deploy/qwen-kserve", "-c", "main", "--tail=5"]));
    until("a line of the log", || follow.stdout().contains("simulated answers"));
    assert!(!follow.has_ended(), "{}", follow.stderr());
}
