//! Probes of real processes.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::test_node::{TestNode, condition, main_container};

fn server(env: &[(&str, &str)], probes: &serde_json::Value) -> serde_json::Value {
    let env: Vec<_> =
        [("PORT", "8000")].iter().chain(env).map(|(k, v)| json!({"name": k, "value": v})).collect();
    let mut container = json!({"name": "main", "image": "longboat", "args": ["server"], "env": env,
        "ports": [{"name": "http", "containerPort": 8000}]});
    container.as_object_mut().unwrap().extend(probes.as_object().unwrap().clone());
    json!({"terminationGracePeriodSeconds": 1, "containers": [container]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_ready_long_before_its_probes_would_be_due() {
    let world = TestNode::start().await;
    let probe = json!({"httpGet": {"path": "/health", "port": "http"}, "initialDelaySeconds": 300, "periodSeconds": 300});
    let began = Instant::now();
    world
        .pod(
            "p",
            server(&[], &json!({"startupProbe": probe, "readinessProbe": probe, "livenessProbe": probe})),
        )
        .await;
    let pod = world.until_ready("p").await;
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert_eq!(main_container(&pod).started, Some(true));
    assert!(
        !world.events("p").await.iter().any(|event| event.contains("Unhealthy")),
        "early failures are not told"
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_liveness_probe_restarts_the_container() {
    let world = TestNode::start().await;
    let broken = world.file("broken");
    let probes = json!({
        "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 1, "failureThreshold": 1},
        "livenessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 1, "failureThreshold": 2},
    });
    world.pod("p", server(&[("BROKEN", broken.to_str().unwrap())], &probes)).await;
    world.until_ready("p").await;
    std::fs::write(&broken, "").unwrap();
    world.until_pod("p", "not ready", |pod| condition(pod, "Ready") == "False").await;
    world.until_event("p", "Unhealthy: Liveness probe failed: HTTP probe failed with statuscode: 503").await;
    world.until_event("p", "Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 503").await;
    world.until_event("p", "Killing: Container main failed liveness probe, will be restarted").await;
    std::fs::remove_file(&broken).unwrap();
    let pod = world
        .until_pod("p", "ready again", |pod| {
            condition(pod, "Ready") == "True" && main_container(pod).restart_count > 0
        })
        .await;
    let last = main_container(&pod).last_state.unwrap().terminated.unwrap();
    assert_eq!(last.exit_code, 143);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exec_tcp_and_startup_probes_work_and_a_startup_that_fails_restarts() {
    let world = TestNode::start().await;
    let flag = world.file("flag");
    let probes = json!({
        "startupProbe": {"tcpSocket": {"port": 8000}},
        "readinessProbe": {"exec": {"command": ["test", "-e", flag]}, "periodSeconds": 1},
    });
    world.pod("p", server(&[], &probes)).await;
    world
        .until_pod("p", "started", |pod| {
            pod.status
                .as_ref()
                .is_some_and(|s| s.container_statuses.as_ref().is_some_and(|c| c[0].started == Some(true)))
        })
        .await;
    assert_eq!(condition(&world.get_pod("p").await, "Ready"), "False");
    std::fs::write(&flag, "").unwrap();
    world.until_ready("p").await;

    let never = json!({"startupProbe": {"exec": {"command": ["sh", "-c", "echo not yet; false"]}, "periodSeconds": 1, "failureThreshold": 1}});
    world.pod("q", server(&[], &never)).await;
    world.until_event("q", "Unhealthy: Startup probe failed: not yet").await;
    world.until_pod("q", "restarted", |pod| main_container(pod).restart_count > 0).await;
    world.end().await;
}
