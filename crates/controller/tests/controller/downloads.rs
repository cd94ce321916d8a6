//! The progress of downloads: what services report, how often, and that nothing waits for it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use longboat_api::conditions::Condition;
use longboat_testkit::TestCluster;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::setup::{Running, condition, service, services, world};

const TYPE: &str = "ModelFetched";

/// A storage initializer that makes progress with each request, or that accepts connections and does not respond.
async fn initializer(talks: bool) -> (u16, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(AtomicU64::new(0));
    let counter = asked.clone();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let gigabytes = counter.fetch_add(1, Ordering::SeqCst) + 1;
            if !talks {
                held.push(stream);
                continue;
            }
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..length]).to_ascii_lowercase();
            assert!(request.starts_with("get / ") && !request.contains("authorization"), "{request}");
            let said = json!({
                "files": 2, "filesDone": 1, "bytes": 9_000_000_000_u64, "bytesDone": gigabytes * 1_000_000_000,
                "bytesPerSecond": 0,
            })
            .to_string();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{said}", said.len());
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (port, asked)
}

/// A pod of a service in which the storage initializer runs and listens at this port of the machine.
async fn pod(world: &TestCluster, service: &str, port: u16) {
    let api: Api<Pod> = Api::namespaced(world.client(), "ns");
    let labels = json!({
        "app.kubernetes.io/part-of": "llminferenceservice", "app.kubernetes.io/name": service,
    });
    let pod = json!({
        "metadata": {"name": format!("{service}-pod"), "namespace": "ns", "labels": labels},
        "spec": {
            "initContainers": [{
                "name": "storage-initializer", "image": "i", "ports": [{"containerPort": port}],
                "env": [{"name": "LONGBOAT_FETCH_PORT", "value": port.to_string()}],
            }],
            "containers": [{"name": "main", "image": "i"}],
        },
    });
    api.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    state(world, service, json!({"running": {}})).await;
}

async fn state(world: &TestCluster, service: &str, state: Value) {
    let api: Api<Pod> = Api::namespaced(world.client(), "ns");
    let status = json!({"status": {
        "phase": "Pending", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}],
        "initContainerStatuses": [
            {"name": "storage-initializer", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state},
        ],
    }});
    let params = PatchParams::default();
    api.patch_status(&format!("{service}-pod"), &params, &Patch::Merge(status)).await.unwrap();
}

/// The number of status writes of a service so far.
fn writes(running: &Running, service: &str) -> u64 {
    let path = format!("llminferenceservices/{service}/status");
    running.faults.log().iter().filter(|write| write.path.ends_with(&path)).count() as u64
}

#[tokio::test]
async fn a_service_says_how_far_its_model_is_with_one_write_for_each_answer() {
    let world = world().await;
    let running = Running::start(&world);
    let (port, asked) = initializer(true).await;
    world.apply(service("llm", json!({}))).await;
    condition(&world, "llm", "MainWorkloadReady", |found| found.reason == "Progressing").await;
    pod(&world, "llm", port).await;

    let first = condition(&world, "llm", TYPE, Condition::is_false).await;
    assert_eq!(first.reason, "Downloading");
    assert!(first.message.starts_with("downloading ") && first.message.ends_with("/9.0 GB"), "{first:?}");
    let before = writes(&running, "llm");
    let answers = asked.load(Ordering::SeqCst);
    let further = |found: &Condition| found.message != first.message;
    condition(&world, "llm", TYPE, further).await;
    // Two requests are five seconds apart, and each causes at most one write.
    let (writes, answers) = (writes(&running, "llm") - before, asked.load(Ordering::SeqCst) - answers);
    assert!((1..=answers + 1).contains(&writes), "{writes} writes after {answers} answers");

    state(&world, "llm", json!({"terminated": {"exitCode": 0}})).await;
    let api = services(world.client());
    world
        .eventually("the condition goes with the download", async || {
            let status = api.get("llm").await.unwrap().status?;
            status.conditions.iter().all(|found| found.type_ != TYPE).then_some(())
        })
        .await;
    running.stop().await;
}

#[tokio::test]
async fn a_pod_that_hangs_is_named_and_holds_nobody_up() {
    let world = world().await;
    let running = Running::start(&world);
    let (port, asked) = initializer(false).await;
    world.apply(service("llm", json!({}))).await;
    condition(&world, "llm", "MainWorkloadReady", |found| found.reason == "Progressing").await;
    pod(&world, "llm", port).await;
    world.eventually("the pod is asked", async || asked.load(Ordering::SeqCst) > 0).await;
    // Meanwhile other services are reconciled, and so is this one.
    world.apply(service("other", json!({}))).await;
    condition(&world, "other", "MainWorkloadReady", |found| found.reason == "Progressing").await;

    let silent = condition(&world, "llm", TYPE, |found| found.reason == "ProgressUnknown").await;
    assert_eq!(
        silent.message,
        format!(
            "storage-initializer of pod llm-pod runs, but reports no progress at http://127.0.0.1:{port}/: \
             no answer within 2 s"
        )
    );
    world.make_available("ns").await;
    condition(&world, "llm", "Ready", Condition::is_true).await;
    running.stop().await;
}
