//! What containers see of the pod's volumes, with mount namespaces and without.

use std::path::Path;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use longboat_api::node::{MOUNT_NAMESPACES, PATHS_REWRITTEN};
use longboat_apiserver::pod_access::LogOptions;
use serde_json::{Value, json};

use crate::test_node::{TestNode, condition, main_container};

/// Whether pods have mount namespaces on this machine. If not, the calling test says that it does not run.
fn has_namespaces(world: &TestNode) -> bool {
    if let Some(reason) = world.node().rewritten() {
        longboat_golden::skipped(&format!("no mount namespaces: {reason}"));
    }
    world.node().rewritten().is_none()
}

/// A pod whose containers put paths together, so that no path in them can be rewritten.
fn pod_with_hidden_paths() -> Value {
    let script = |text: &str| json!(["/bin/sh", "-c", format!("d=models; r=run; s=secrets; {text}")]);
    let main = "cat /longboat-$d/made-by-init /longboat-$d/deep/er/made-by-init /var/$r/longboat-tls/key; \
                test -s /var/$r/$s/kubernetes.io/serviceaccount/token && echo token; \
                id -u; pwd; ls -d /tmp /dev/null /proc/self/status; echo from-main > /longboat-$d/made-by-main; \
                echo why > /dev/termination-log; sleep 1000";
    let mounts = json!([
        {"name": "models", "mountPath": "/longboat-models"},
        {"name": "deep", "mountPath": "/longboat-models/deep/er"},
        {"name": "tls", "mountPath": "/var/run/longboat-tls"},
    ]);
    json!({
        "initContainers": [
            {"name": "init", "volumeMounts": mounts, "command": script(
                "echo one > /longboat-$d/made-by-init; echo two > /longboat-$d/deep/er/made-by-init")},
            {"name": "sidecar", "restartPolicy": "Always", "volumeMounts": mounts, "command": script(
                "until test -e /longboat-$d/made-by-main; do sleep 0.05; done; \
                 cp /longboat-$d/made-by-main /longboat-$d/made-by-sidecar; sleep 1000")},
        ],
        "containers": [{
            "name": "main", "command": script(main), "workingDir": "/longboat-models", "volumeMounts": mounts,
            "readinessProbe": {"periodSeconds": 1, "exec": {"command": script("test -s /longboat-$d/made-by-sidecar")}},
        }],
        "volumes": [
            {"name": "models", "emptyDir": {}},
            {"name": "deep", "persistentVolumeClaim": {"claimName": "weights"}},
            {"name": "tls", "secret": {"secretName": "tls"}},
        ],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_and_probes_see_volumes_at_the_paths_of_the_manifest() {
    let world = TestNode::start().await;
    if !has_namespaces(&world) {
        return world.end().await;
    }
    let secret = json!({"metadata": {"name": "tls"}, "stringData": {"key": "three\n"}});
    world.create::<k8s_openapi::api::core::v1::Secret>(secret).await;
    world.pod("p", pod_with_hidden_paths()).await;
    let pod = world.until_ready("p").await;
    let options = LogOptions { container: Some("main".into()), ..LogOptions::default() };
    let user = rustix::process::getuid().as_raw();
    assert_eq!(
        world.logs("p", options).await.unwrap(),
        format!("one\ntwo\nthree\ntoken\n{user}\n/longboat-models\n/dev/null\n/proc/self/status\n/tmp\n")
    );
    assert_eq!(condition(&pod, "Ready"), "True");
    for path in ["/longboat-models", "/var/run/longboat-tls", "/run/longboat-tls"] {
        assert!(!Path::new(path).exists(), "{path} is on this machine");
    }
    let claim = world.file("state/claims/default/weights/made-by-init");
    assert_eq!(std::fs::read_to_string(claim).unwrap(), "two\n");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_containers_need_of_this_machine_stays_and_is_rewritten() {
    let world = TestNode::start().await;
    if !has_namespaces(&world) {
        return world.end().await;
    }
    // The state of the node is below the folder for temporary files.
    let script =
        "t=tmp; echo $VOLUME; test -e /$t/hidden || echo unchanged; cat /tmp/hidden /longboat/own/hidden";
    world
        .pod(
            "p",
            json!({"restartPolicy": "Never", "automountServiceAccountToken": false,
                "containers": [{"name": "main", "command": ["/bin/sh", "-c",
                format!("echo seen > /tmp/hidden; {script}")], "env": [{"name": "VOLUME", "value": "/longboat/own"}],
                "volumeMounts": [{"name": "v", "mountPath": "/tmp"}, {"name": "v", "mountPath": "/longboat/own"}]}],
            "volumes": [{"name": "v", "emptyDir": {}}]}),
        )
        .await;
    world.until_pod("p", "over", is_over).await;
    let log = world.logs("p", LogOptions::default()).await.unwrap();
    assert_eq!(log, "/longboat/own\nunchanged\nseen\nseen\n");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_find_services_by_name_although_they_come_later() {
    let world = TestNode::start().await;
    if !has_namespaces(&world) {
        return world.end().await;
    }
    let script = "echo started; until grep ' late.default late$' /etc/hosts; do sleep 0.05; done";
    let container = json!({"name": "main", "command": ["/bin/sh", "-c", script]});
    world.pod("p", json!({"restartPolicy": "Never", "containers": [container]})).await;
    let runs = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    world.until_pod("p", "running", runs).await;
    let service = json!({"metadata": {"name": "late"}, "spec": {"ports": [{"port": 80}]}});
    let service = world.create::<k8s_openapi::api::core::v1::Service>(service).await;
    world.until_pod("p", "over", is_over).await;
    let address = service.spec.unwrap().cluster_ip.unwrap();
    let log = world.logs("p", LogOptions::default()).await.unwrap();
    assert_eq!(
        log,
        format!("started\n{address} late.default.svc.cluster.local late.default.svc late.default late\n")
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_mount_namespaces_paths_in_manifests_are_rewritten_and_the_node_says_so() {
    let world = TestNode::with(|options| options.rewrite_paths = true).await;
    assert!(world.node().rewritten().is_some());
    let node = Api::<Node>::all(world.client.clone()).get("longboat-local").await.unwrap();
    let conditions = node.status.unwrap().conditions.unwrap();
    let mounts = conditions.iter().find(|one| one.type_ == MOUNT_NAMESPACES).unwrap();
    assert_eq!((mounts.status.as_str(), mounts.reason.as_deref()), ("False", Some(PATHS_REWRITTEN)));
    world
        .pod(
            "p",
            json!({"restartPolicy": "Never", "containers": [{"name": "main", "command": ["/bin/sh", "-c",
                "m=models; echo here > /longboat-models/file && cat /longboat-models/file; ls /longboat-$m"],
                "volumeMounts": [{"name": "v", "mountPath": "/longboat-models"}]}],
            "volumes": [{"name": "v", "emptyDir": {}}]}),
        )
        .await;
    let pod = world.until_pod("p", "over", is_over).await;
    assert_ne!(main_container(&pod).state.unwrap().terminated.unwrap().exit_code, 0);
    // What a container prints on its two streams within a moment has no order.
    let logs = world.logs("p", LogOptions::default()).await.unwrap();
    let mut lines: Vec<&str> = logs.lines().collect();
    lines.sort_unstable();
    assert!(lines[0] == "here" && lines[1].starts_with("ls: "), "{logs}");
    world.end().await;
}

fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}
