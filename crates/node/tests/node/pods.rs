//! Tests with single pods.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kube::Api;
use kube::api::{Patch, PatchParams};
use longboat_apiserver::pod_access::{LogOptions, PodRef};
use serde_json::json;

use crate::test_node::{TestNode, condition, eventually, is_alive, main_container, number_in, pod_ip};

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_runs_on_its_own_address_with_its_environment_and_volumes() {
    let world = TestNode::start().await;
    world
        .create::<ConfigMap>(
            json!({"metadata": {"name": "c"}, "data": {"key": "from config", "MODE": "fast"}}),
        )
        .await;
    let script = "cat /etc/c/key; echo; echo $MODE $NAME $IP; cat /var/run/secrets/kubernetes.io/serviceaccount/token; \
                  echo; grep -c server $KUBECONFIG; echo $HOST_OF_SVC; sleep 0.3; echo err >&2; sleep 1000";
    world
        .create::<k8s_openapi::api::core::v1::Service>(
            json!({"metadata": {"name": "svc-a"}, "spec": {"ports": [{"port": 8000}]}}),
        )
        .await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    world
        .pod(
            "p",
            json!({"containers": [{"name": "main", "image": "busybox", "command": ["/bin/sh", "-c", script],
            "envFrom": [{"configMapRef": {"name": "c"}}],
            "env": [{"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "HOST_OF_SVC", "value": "at $(SVC_A_SERVICE_HOST)"}],
            "volumeMounts": [{"name": "c", "mountPath": "/etc/c"}]}],
            "volumes": [{"name": "c", "configMap": {"name": "c"}}]}),
        )
        .await;
    let pod = world.until_ready("p").await;
    let ip = pod_ip(&pod);
    assert!(ip.starts_with("127."), "{ip}");
    let status = pod.status.clone().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert_eq!(status.qos_class.as_deref(), Some("BestEffort"));
    assert_eq!(pod.spec.as_ref().unwrap().node_name.as_deref(), Some("longboat-local"));
    for type_ in ["PodReadyToStartContainers", "Initialized", "ContainersReady", "PodScheduled"] {
        assert_eq!(condition(&pod, type_), "True", "{type_}");
    }
    eventually("the last line is logged", || {
        std::fs::read_dir(world.file("state/pods")).unwrap().count() == 1
    })
    .await;
    let lines = loop {
        let log = world.logs("p", LogOptions::default()).await.unwrap();
        if log.lines().count() >= 6 {
            break log.lines().map(str::to_owned).collect::<Vec<_>>();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(lines[0], "from config");
    assert_eq!(lines[1], format!("fast p {ip}"));
    // The token belongs to the account and is known to the server. It is not the node's token.
    assert!(lines[2].starts_with("eyJ") && lines[2].split('.').count() == 3, "{}", lines[2]);
    assert_eq!(lines[3], "1");
    assert!(lines[4].starts_with("at 127."), "{}", lines[4]);
    assert!(lines.contains(&"err".to_owned()));
    for event in [
        "Scheduled: Successfully assigned default/p to longboat-local",
        "Created: Created container: main",
        "Started: Started container main",
    ] {
        world.until_event("p", event).await;
    }
    let node = Api::<Node>::all(world.client.clone()).get("longboat-local").await.unwrap();
    assert!(
        node.status
            .unwrap()
            .conditions
            .unwrap()
            .iter()
            .any(|one| one.type_ == "Ready" && one.status == "True")
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_fails_restarts_and_backs_off() {
    let world = TestNode::start().await;
    let script = "echo attempt; echo why > /dev/termination-log; exit 3";
    world.pod("p", json!({"containers": [{"name": "main", "command": ["sh", "-c", script]}]})).await;
    let pod = world
        .until_pod("p", "in its second back-off", |pod| {
            let container = pod.status.as_ref().and_then(|status| status.container_statuses.clone());
            container.is_some_and(|list| {
                let waiting = list[0].state.as_ref().and_then(|state| state.waiting.clone());
                list[0].restart_count >= 2
                    && waiting.and_then(|waiting| waiting.reason).as_deref() == Some("CrashLoopBackOff")
            })
        })
        .await;
    let main = main_container(&pod);
    let last = main.last_state.unwrap().terminated.unwrap();
    assert_eq!(
        (last.exit_code, last.reason.as_deref(), last.message.as_deref()),
        (3, Some("Error"), Some("why\n"))
    );
    let message = main.state.unwrap().waiting.unwrap().message.unwrap();
    assert!(message.contains("restarting failed container=main pod=p_default("), "{message}");
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Running"));
    world.until_event("p", "BackOff: Back-off restarting failed container main in pod p_default(").await;
    let previous = world.logs("p", LogOptions { previous: true, ..LogOptions::default() }).await.unwrap();
    assert_eq!(previous, "attempt\n");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn init_containers_and_sidecars_go_first_and_jobs_end() {
    let world = TestNode::start().await;
    let order = world.file("order");
    let note =
        |text: &str, then: &str| json!(["sh", "-c", format!("echo {text} >> {}; {then}", order.display())]);
    let wait = format!("while ! grep -q two {}; do sleep 0.05; done", order.display());
    world
        .pod("p", json!({"restartPolicy": "Never",
            "initContainers": [{"name": "one", "command": note("one", "sleep 0.2")},
                {"name": "side", "restartPolicy": "Always", "command": note("side", "trap 'exit 0' TERM; while :; do sleep 0.1; done"),
                    "startupProbe": {"exec": {"command": ["grep", "-q", "side", order]}}},
                {"name": "two", "command": note("two", "true")}],
            "containers": [{"name": "main", "command": note("main", &wait)}]}))
        .await;
    let pod = world
        .until_pod("p", "done", |pod| {
            pod.status.as_ref().is_some_and(|s| s.phase.as_deref() == Some("Succeeded"))
        })
        .await;
    assert_eq!(std::fs::read_to_string(&order).unwrap(), "one\nside\ntwo\nmain\n");
    let ready = condition(&pod, "Ready").to_owned();
    assert_eq!(ready, "False");
    world
        .until_pod("p", "without its sidecar", |pod| {
            let side = &pod.status.as_ref().unwrap().init_container_statuses.as_ref().unwrap()[1];
            side.state.as_ref().unwrap().terminated.is_some()
        })
        .await;
    world.delete_pod("p").await;
    world.until_gone("p").await;
    // A sidecar that waits for its restart does not restart any more.
    world
        .pod("q", json!({"restartPolicy": "Never",
            "initContainers": [{"name": "side", "restartPolicy": "Always", "command": ["sh", "-c", "sleep 0.1; exit 3"]}],
            "containers": [{"name": "main", "command": ["sleep", "1"]}]}))
        .await;
    let over = |pod: &Pod| {
        let status = pod.status.clone().unwrap_or_default();
        let side = status.init_container_statuses.unwrap_or_default().into_iter().next();
        let end = side.and_then(|side| side.state?.terminated);
        status.phase.as_deref() == Some("Succeeded") && end.is_some_and(|end| end.exit_code == 3)
    };
    world.until_pod("q", "over", over).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_pod_that_a_finalizer_keeps_ends_and_stays_ended() {
    let world = TestNode::start().await;
    let started = world.file("started");
    let script = format!("echo $$$$ >> {}; exec sleep 1000", started.display());
    let metadata = json!({"name": "p", "finalizers": ["example.com/kept"]});
    let spec = json!({"terminationGracePeriodSeconds": 5,
        "containers": [{"name": "main", "image": "busybox", "command": ["sh", "-c", script]}]});
    world.create::<Pod>(json!({"metadata": metadata, "spec": spec})).await;
    world.until_ready("p").await;
    number_in(&started).await;
    world.delete_pod("p").await;
    let is_over = |pod: &Pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Failed");
    world.until_pod("p", "failed", is_over).await;
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    world.api::<Pod>().patch("p", &PatchParams::default(), &label).await.unwrap();
    // A node that starts anew does not run it either.
    let mut world = world;
    world.stop_node(Duration::from_secs(5)).await;
    world.start_node(|_| {}).await;
    world.pod("other", json!({"containers": [{"name": "main", "command": ["sleep", "1000"]}]})).await;
    world.until_ready("other").await;
    let pod = world.get_pod("p").await;
    assert!(is_over(&pod) && main_container(&pod).state.unwrap().terminated.is_some(), "{:?}", pod.status);
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    world.api::<Pod>().patch("p", &PatchParams::default(), &free).await.unwrap();
    world.until_gone("p").await;
    assert_eq!(std::fs::read_to_string(&started).unwrap().lines().count(), 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_runs_the_hook_then_terminates_then_kills_the_whole_group() {
    let world = TestNode::start().await;
    let (hook, child) = (world.file("hook"), world.file("child"));
    // Neither the shell nor its child reacts to SIGTERM.
    let script =
        format!("trap '' TERM; (trap '' TERM; sleep 1000) & echo $! > {}; wait; sleep 1000", child.display());
    world
        .pod("p", json!({"terminationGracePeriodSeconds": 2, "containers": [{"name": "main", "command": ["bash", "-c", script],
            "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", format!("date > {}", hook.display())]}}}}]}))
        .await;
    world.until_ready("p").await;
    let pid = number_in(&child).await;
    assert!(is_alive(pid));
    let began = Instant::now();
    world.delete_pod("p").await;
    world.until_event("p", "Killing: Stopping container main").await;
    world.until_gone("p").await;
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(1800) && took < Duration::from_secs(20), "{took:?}");
    assert!(hook.exists());
    eventually("the child is killed", || !is_alive(pid)).await;
    eventually("the pod's files are removed", || {
        std::fs::read_dir(world.file("state/pods")).unwrap().count() == 0
    })
    .await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_first_process_is_asked_to_end() {
    let world = TestNode::start().await;
    let (started, drained) = (world.file("started"), world.file("drained"));
    // A server that drains: its child must live until the server has ended.
    let script = format!(
        "(while :; do sleep 0.1; done) & child=$!; trap \"sleep 1; kill -0 $child && echo alive > {}; exit 0\" TERM; \
         echo $child > {}; while :; do sleep 0.1; done",
        drained.display(),
        started.display()
    );
    world
        .pod("p", json!({"terminationGracePeriodSeconds": 60, "containers": [{"name": "main", "command": ["bash", "-c", script]}]}))
        .await;
    world.until_ready("p").await;
    // The pod is ready before bash has reached the trap.
    number_in(&started).await;
    world.delete_pod("p").await;
    world.until_gone("p").await;
    assert_eq!(std::fs::read_to_string(&drained).unwrap_or_default(), "alive\n");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_deletion_without_grace_ends_the_waiting() {
    let world = TestNode::start().await;
    world
        .pod("p", json!({"terminationGracePeriodSeconds": 600, "containers": [{"name": "main", "command": ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]}]}))
        .await;
    world.until_ready("p").await;
    world.delete_pod("p").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let now = kube::api::DeleteParams { grace_period_seconds: Some(0), ..kube::api::DeleteParams::default() };
    world.api::<k8s_openapi::api::core::v1::Pod>().delete("p", &now).await.unwrap();
    world.until_gone("p").await;
    eventually("the pod's files are removed", || {
        std::fs::read_dir(world.file("state/pods")).unwrap().count() == 0
    })
    .await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_followed_while_they_are_written() {
    let world = TestNode::start().await;
    let script = "for i in 1 2 3 4 5; do echo line $i; sleep 0.1; done";
    world.pod("p", json!({"restartPolicy": "Never", "containers": [{"name": "main", "command": ["sh", "-c", script]}]})).await;
    world
        .until_pod("p", "started", |pod| {
            pod.status.as_ref().is_some_and(|s| s.phase.as_deref() != Some("Pending"))
        })
        .await;
    let followed = world.logs("p", LogOptions { follow: true, ..LogOptions::default() }).await.unwrap();
    assert_eq!(followed, "line 1\nline 2\nline 3\nline 4\nline 5\n");
    let tail = world.logs("p", LogOptions { tail_lines: Some(1), ..LogOptions::default() }).await.unwrap();
    assert_eq!(tail, "line 5\n");
    let error = world
        .logs("p", LogOptions { container: Some("other".into()), ..LogOptions::default() })
        .await
        .unwrap_err();
    assert_eq!(error, "container other is not valid for pod p");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_waits_for_what_it_refers_to() {
    let world = TestNode::start().await;
    world
        .pod(
            "p",
            json!({"containers": [{"name": "main", "command": ["sh", "-c", "cat /s/k; sleep 1000"],
            "env": [{"name": "E", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "k"}}}],
            "volumeMounts": [{"name": "s", "mountPath": "/s"}]}],
            "volumes": [{"name": "s", "secret": {"secretName": "late"}}]}),
        )
        .await;
    world
        .until_event(
            "p",
            "FailedMount: MountVolume.SetUp failed for volume \"s\" : secret \"late\" not found",
        )
        .await;
    world.create::<Secret>(json!({"metadata": {"name": "late"}, "stringData": {"k": "v1"}})).await;
    world
        .until_pod("p", "refused for its environment", |pod| {
            let waiting = pod
                .status
                .as_ref()
                .and_then(|s| s.container_statuses.as_ref()?[0].state.as_ref()?.waiting.clone());
            waiting.is_some_and(|waiting| waiting.message.as_deref() == Some("configmap \"late\" not found"))
        })
        .await;
    world.create::<ConfigMap>(json!({"metadata": {"name": "late"}, "data": {"k": "x"}})).await;
    let pod = world.until_ready("p").await;
    assert_eq!(main_container(&pod).restart_count, 0);

    // A changed Secret arrives in the running container.
    let patch = Patch::Merge(json!({"stringData": {"k": "v2"}}));
    world.api::<Secret>().patch("late", &PatchParams::default(), &patch).await.unwrap();
    let file = world.file("state/pods").join(&pod.metadata.uid.unwrap()[..8]).join("volumes/s/k");
    eventually("the file changes", || std::fs::read_to_string(&file).is_ok_and(|text| text == "v2")).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_run_here_says_so() {
    let world = TestNode::start().await;
    world.pod("p", json!({"containers": [{"name": "main", "image": "docker.io/library/redis:7"}]})).await;
    let pod = world
        .until_pod("p", "refused", |pod| {
            let waiting = pod
                .status
                .as_ref()
                .and_then(|s| s.container_statuses.as_ref()?[0].state.as_ref()?.waiting.clone());
            waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some("NoLocalRole"))
        })
        .await;
    let message = main_container(&pod).state.unwrap().waiting.unwrap().message.unwrap();
    assert!(
        message.contains("docker.io/library/redis:7") && message.contains("storage-initializer"),
        "{message}"
    );
    assert_eq!(condition(&pod, "Ready"), "False");
    world.until_event("p", "Failed: Error: image `").await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn how_far_a_download_is_stands_in_the_status_until_it_is_over() {
    let world = TestNode::with(|options| options.timing.progress = Duration::from_millis(100)).await;
    let arrived = world.file("arrived");
    world
        .pod(
            "p",
            json!({"initContainers": [{"name": "storage-initializer", "image": "kserve/storage-initializer:latest",
                "args": ["hf://large/model", "/mnt/models"],
                // The port would be open to the network; the node reads a file instead.
                "env": [{"name": "ARRIVED", "value": arrived.to_str().unwrap()},
                    {"name": longboat_download::PORT_VARIABLE, "value": "8123"}]}],
            "containers": [{"name": "main", "command": ["sleep", "1000"]}]}),
        )
        .await;
    let of = |pod: &k8s_openapi::api::core::v1::Pod| {
        let conditions = pod.status.clone().unwrap_or_default().conditions.unwrap_or_default();
        conditions.into_iter().find(|condition| condition.type_ == longboat_download::PROGRESS_CONDITION)
    };
    let pod = world.until("p", "progress is shown", |pod| of(pod).is_some()).await;
    let condition = of(&pod).unwrap();
    assert_eq!(condition.message.as_deref(), Some("downloading 3.2/15.2 GB, 210 MB/s, 57 s left"));
    assert_eq!((condition.status.as_str(), condition.reason.as_deref()), ("False", Some("Downloading")));

    // An unchanged status is not written again.
    let version = pod.metadata.resource_version;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(world.get_pod("p").await.metadata.resource_version, version);

    std::fs::write(arrived, "").unwrap();
    let pod = world.until_ready("p").await;
    assert_eq!(of(&pod), None);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_of_pods_can_be_reached() {
    let world = TestNode::start().await;
    world
        .pod(
            "p",
            json!({"containers": [{"name": "main", "image": "longboat", "args": ["server"],
            "env": [{"name": "PORT", "value": "8000"}, {"name": "ANSWER", "value": "hello"}],
            "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}}}]}),
        )
        .await;
    world.until_ready("p").await;
    let pod = PodRef { namespace: "default".into(), name: "p".into() };
    let mut stream = world.node().pod_access().connect(pod.clone(), 8000).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stream, b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer).await.unwrap();
    assert!(answer.ends_with("hello"), "{answer}");
    assert!(world.node().pod_access().connect(pod, 1).await.is_err());
    let other = PodRef { namespace: "default".into(), name: "other".into() };
    assert!(world.node().pod_access().connect(other, 8000).await.is_err());
    world.end().await;
}
