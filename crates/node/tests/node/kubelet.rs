//! What the node reports of pods that fail, wait or start again, as a kubelet does.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::DeleteParams;
use longboat_apiserver::pod_access::LogOptions;
use serde_json::json;

use crate::test_node::{TestNode, condition, eventually, is_alive, main_container, number_in};

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Returns the reason why the main container waits.
fn waits_for(pod: &Pod) -> Option<String> {
    pod.status.as_ref()?.container_statuses.as_ref()?[0].state.as_ref()?.waiting.as_ref()?.reason.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_active_for_too_long_fails_when_its_containers_have_ended() {
    let world = TestNode::start().await;
    let (hook, started) = (world.file("hook"), world.file("started"));
    let script = format!("echo $$$$ > {}; exec sleep 1000", started.display());
    world
        .pod(
            "p",
            json!({"activeDeadlineSeconds": 1, "terminationGracePeriodSeconds": 30, "containers": [
            {"name": "main", "command": ["sh", "-c", script],
                "lifecycle": {"preStop": {"exec": {"command": ["touch", hook]}}}},
            {"name": "broken", "command": ["false"]}]}),
        )
        .await;
    let pid = number_in(&started).await;
    let pod = world.until_pod("p", "failed", |pod| phase(pod) == "Failed").await;
    let status = pod.status.clone().unwrap();
    assert_eq!(
        (status.reason.as_deref(), status.message.as_deref()),
        (Some("DeadlineExceeded"), Some("Pod was active on the node longer than the specified deadline"))
    );
    assert!(!is_alive(pid) && hook.exists());
    let ends =
        status.container_statuses.unwrap().into_iter().map(|container| container.state.unwrap().terminated);
    assert_eq!(ends.map(|end| end.map(|end| end.exit_code)).collect::<Vec<_>>(), [Some(143), Some(1)]);
    assert_eq!(condition(&pod, "Ready"), "False");
    world.until_event("p", "DeadlineExceeded: Pod was active on the node longer than the specified").await;
    // The pod and its log stay until somebody deletes the pod.
    assert!(
        world.logs("p", LogOptions { container: Some("main".into()), ..LogOptions::default() }).await.is_ok()
    );
    world.delete_pod("p").await;
    world.until_gone("p").await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deadline_of_a_pod_includes_the_time_before_its_containers_start() {
    let world = TestNode::start().await;
    let volumes = json!([{"name": "s", "secret": {"secretName": "never"}}]);
    world
        .pod(
            "p",
            json!({"activeDeadlineSeconds": 1, "volumes": volumes, "containers": [{"name": "main",
            "command": ["sleep", "1000"], "volumeMounts": [{"name": "s", "mountPath": "/s"}]}]}),
        )
        .await;
    let pod = world.until_pod("p", "failed", |pod| phase(pod) == "Failed").await;
    assert_eq!(pod.status.unwrap().reason.as_deref(), Some("DeadlineExceeded"));
    world.create::<Secret>(json!({"metadata": {"name": "never"}})).await;
    world.delete_pod("p").await;
    world.until_gone("p").await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_active_for_too_long_counts_its_pods_as_failed() {
    let world = TestNode::start().await;
    let container = json!({"name": "main", "image": "i", "command": ["sleep", "1000"]});
    world
        .create::<Job>(
            json!({"metadata": {"name": "j"}, "spec": {"activeDeadlineSeconds": 2, "template": {"spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}}}}),
        )
        .await;
    let is = |job: &Job, type_: &str| {
        let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|condition| condition.type_ == type_ && condition.status == "True")
    };
    world.until::<Job>("j", "ready", |job| job.status.as_ref().is_some_and(|s| s.ready == Some(1))).await;
    let job = world.until::<Job>("j", "failed", |job| is(job, "Failed")).await;
    let status = job.status.clone().unwrap();
    assert_eq!(
        (status.active, status.ready, status.failed, status.terminating),
        (None, Some(0), Some(1), Some(0))
    );
    assert!(is(&job, "FailureTarget"));
    world.until_event("j", "DeadlineExceeded: Job was active longer than specified deadline").await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_waiting_container_is_its_last_one_or_says_what_it_waits_for() {
    let world = TestNode::with(|options| {
        options.timing.backoff_initial = Duration::from_mins(5);
        options.timing.backoff_max = Duration::from_mins(5);
    })
    .await;
    let log = async |pod: &str, container: &str, previous: bool| {
        let container = Some(container.to_owned());
        world.logs(pod, LogOptions { container, previous, ..LogOptions::default() }).await
    };
    let count = world.file("count");
    let script = format!("echo x >> {0}; echo attempt $(wc -l < {0}); exit 3", count.display());
    world.pod("p", json!({"containers": [{"name": "main", "command": ["sh", "-c", script]}]})).await;
    let is_waiting = |pod: &Pod| waits_for(pod).as_deref() == Some("CrashLoopBackOff");
    let pod = world.until_pod("p", "in its back-off", is_waiting).await;
    let last = main_container(&pod).last_state.unwrap().terminated.unwrap();
    assert!(last.container_id.unwrap().ends_with("/main/1"));
    // As with a kubelet, the previous instance is the last one that has ended.
    for previous in [false, true] {
        assert_eq!(log("p", "main", previous).await.unwrap(), "attempt 2\n");
    }

    let variable = json!({"name": "E", "valueFrom": {"secretKeyRef": {"name": "late", "key": "k"}}});
    world
        .pod("q", json!({"initContainers": [{"name": "init", "command": ["sh", "-c", "echo $E"], "env": [variable]}],
            "containers": [{"name": "main", "command": ["sleep", "1000"]}, {"name": "other", "image": "redis"}]}))
        .await;
    let init = |pod: &Pod| {
        let status = pod.status.as_ref()?.init_container_statuses.as_ref()?[0].clone();
        status.state?.waiting?.reason
    };
    let refused = "CreateContainerConfigError";
    world.until_pod("q", "refused", |pod| init(pod).as_deref() == Some(refused)).await;
    let waits =
        |name: &str, reason: &str| format!("container {name:?} in pod \"q\" is waiting to start: {reason}");
    assert_eq!(log("q", "init", false).await.unwrap_err(), waits("init", refused));
    assert_eq!(log("q", "main", false).await.unwrap_err(), waits("main", "PodInitializing"));
    assert_eq!(
        log("q", "main", true).await.unwrap_err(),
        "previous terminated container \"main\" in pod \"q\" not found"
    );

    // The pod starts soon after the Secret appears: this world's back-off is five minutes.
    world.create::<Secret>(json!({"metadata": {"name": "late"}, "stringData": {"k": "v"}})).await;
    let other =
        |pod: &Pod| pod.status.as_ref()?.container_statuses.as_ref()?.get(1)?.state.clone()?.waiting?.reason;
    world.until_pod("q", "started", |pod| other(pod).as_deref() == Some("NoLocalRole")).await;
    assert_eq!(log("q", "init", false).await.unwrap(), "v\n");
    assert_eq!(log("q", "other", false).await.unwrap_err(), waits("other", "NoLocalRole"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_has_ended_twice_has_two_ends() {
    let world = TestNode::start().await;
    let flag = world.file("flag");
    let script =
        format!("if [ -e {0} ]; then echo second; else touch {0}; echo first; exit 4; fi", flag.display());
    world
        .pod("p", json!({"restartPolicy": "OnFailure", "containers": [{"name": "main", "command": ["sh", "-c", script]}]}))
        .await;
    let pod = world.until_pod("p", "done", |pod| phase(pod) == "Succeeded").await;
    let main = main_container(&pod);
    assert_eq!(main.restart_count, 1);
    let ends = [main.state, main.last_state].map(|state| state.unwrap().terminated.unwrap());
    assert_eq!(ends.clone().map(|end| end.exit_code), [0, 4]);
    let [new, old] = ends.map(|end| end.container_id.unwrap());
    assert!(new.ends_with("/main/1") && old.ends_with("/main/0"), "{new} {old}");
    for (previous, text) in [(false, "second\n"), (true, "first\n")] {
        assert_eq!(world.logs("p", LogOptions { previous, ..LogOptions::default() }).await.unwrap(), text);
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_end_of_a_container_is_still_known_to_the_next_node() {
    let slow = |options: &mut longboat_node::Options| {
        options.timing.backoff_initial = Duration::from_mins(5);
        options.timing.backoff_max = Duration::from_mins(5);
    };
    let mut world = TestNode::with(slow).await;
    let runs = world.file("runs");
    let script =
        format!("echo x >> {0}; [ $(wc -l < {0}) -gt 2 ] || exit 3; exec sleep 1000", runs.display());
    world.pod("p", json!({"containers": [{"name": "main", "command": ["sh", "-c", script]}]})).await;
    let is_waiting = |pod: &Pod| waits_for(pod).as_deref() == Some("CrashLoopBackOff");
    let before = main_container(&world.until_pod("p", "in its back-off", is_waiting).await);
    world.stop_node(Duration::from_secs(1)).await;
    world.start_node(slow).await;
    let main = main_container(&world.until_ready("p").await);
    assert_eq!((before.restart_count, main.restart_count), (1, 2));
    assert_eq!(main.last_state, before.last_state);
    let previous = LogOptions { previous: true, ..LogOptions::default() };
    assert!(world.logs("p", previous).await.unwrap_err().contains("the log of this instance is gone"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn termination_messages_come_from_the_path_or_the_log_that_the_manifest_says() {
    let world = TestNode::start().await;
    let own = "/run/own/message";
    let fallback = "FallbackToLogsOnError";
    world
        .pod("p", json!({"restartPolicy": "Never", "containers": [
            {"name": "path", "terminationMessagePath": own, "command": ["sh", "-c", format!("echo from the path > {own}")]},
            {"name": "log", "terminationMessagePolicy": fallback, "command": ["sh", "-c", "echo from the log; exit 1"]},
            {"name": "fine", "terminationMessagePolicy": fallback, "command": ["echo", "fine"]},
            {"name": "both", "terminationMessagePolicy": fallback,
                "command": ["sh", "-c", "echo from the log; echo from the file > /dev/termination-log; exit 1"]},
            {"name": "none", "command": ["sh", "-c", "echo from the log; exit 1"]}]}))
        .await;
    let pod = world.until_pod("p", "done", |pod| phase(pod) == "Failed").await;
    let statuses = pod.status.unwrap().container_statuses.unwrap();
    let messages = statuses.into_iter().map(|status| status.state.unwrap().terminated.unwrap().message);
    assert_eq!(
        messages.map(Option::unwrap_or_default).collect::<Vec<_>>(),
        ["from the path\n", "from the log\n", "", "from the file\n", ""]
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn references_that_are_optional_may_be_missing_and_sub_paths_are_parts_of_volumes() {
    let world = TestNode::start().await;
    world
        .create::<ConfigMap>(json!({"metadata": {"name": "c"}, "data": {"a": "from a", "b": "from b"}}))
        .await;
    let env_from = json!([{"configMapRef": {"name": "none", "optional": true}}, {"secretRef": {"name": "none", "optional": true}},
        {"prefix": "C_", "configMapRef": {"name": "c"}}]);
    let from = |source: serde_json::Value| json!({"name": "X", "valueFrom": source});
    let env = json!([from(json!({"configMapKeyRef": {"name": "c", "key": "none", "optional": true}})),
        {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "PART", "value": "part"}]);
    let script = "echo $C_a ${X-unset} $LABEL $NODE; cat /conf/one; ls /data/whole; cat /data/named/file";
    world
        .pod("p", json!({"restartPolicy": "Never",
            "initContainers": [{"name": "init", "command": ["sh", "-c", "mkdir -p /all/part; echo in it > /all/part/file"],
                "volumeMounts": [{"name": "d", "mountPath": "/all"}]}],
            "containers": [{"name": "main", "command": ["sh", "-c", script], "envFrom": env_from, "env": env, "volumeMounts": [
                {"name": "c", "mountPath": "/conf/one", "subPath": "b"},
                {"name": "d", "mountPath": "/data/whole"},
                {"name": "d", "mountPath": "/data/named", "subPathExpr": "$(PART)"}]}],
            "volumes": [{"name": "c", "configMap": {"name": "c"}}, {"name": "d", "emptyDir": {}}]}))
        .await;
    world.until_pod("p", "done", |pod| phase(pod) == "Succeeded").await;
    let log = world.logs("p", LogOptions::default()).await.unwrap();
    assert_eq!(log, "from a unset p longboat-local\nfrom bpart\nin it\n");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_fails_after_the_start_restarts_the_container() {
    let world = TestNode::start().await;
    let (started, stopped) = (world.file("started"), world.file("stopped"));
    let script = format!("echo x >> {}; exec sleep 1000", started.display());
    world
        .pod("p", json!({"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "command": ["sh", "-c", script],
            "lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", "echo no; exit 7"]}},
                "preStop": {"exec": {"command": ["touch", stopped]}}}}]}))
        .await;
    world
        .until_event(
            "p",
            "FailedPostStartHook: PostStartHook failed: command 'sh -c echo no; exit 7' exited with 7: no",
        )
        .await;
    world.until_pod("p", "restarted", |pod| main_container(pod).restart_count > 0).await;
    eventually("the container started again", || {
        std::fs::read_to_string(&started).is_ok_and(|text| text.lines().count() > 1)
    })
    .await;
    assert!(stopped.exists(), "as in a kubelet, the other hook runs before the container is killed");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_shortens_the_time_of_a_container_that_failed_its_probe() {
    let world = TestNode::start().await;
    let started = world.file("started");
    let script = format!("trap '' TERM; echo $$$$ > {}; while true; do sleep 0.1; done", started.display());
    let fails =
        json!({"exec": {"command": ["test", "!", "-e", started]}, "periodSeconds": 1, "failureThreshold": 1});
    world
        .pod(
            "p",
            json!({"terminationGracePeriodSeconds": 600, "containers": [
            {"name": "main", "command": ["sh", "-c", script], "livenessProbe": fails}]}),
        )
        .await;
    world.until_event("p", "Killing: Container main failed liveness probe, will be restarted").await;
    let pid = number_in(&started).await;
    assert!(is_alive(pid), "it has ten minutes");
    let params = DeleteParams { grace_period_seconds: Some(1), ..DeleteParams::default() };
    world.api::<Pod>().delete("p", &params).await.unwrap();
    world.until_gone("p").await;
    assert!(!is_alive(pid));
    world.end().await;
}
