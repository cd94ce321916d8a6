//! Pods as the reference makes them, from its recordings.

use std::path::PathBuf;
use std::time::Instant;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::ListParams;
use longboat_apiserver::pod_access::LogOptions;
use serde_json::{Value, json};

use crate::world::{World, http_get, pod_ip};

/// The folder of recordings; none, and a loud word, where it is missing.
fn golden() -> Option<PathBuf> {
    let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden");
    let dir = std::env::var_os("LONGBOAT_GOLDEN").map_or_else(default, PathBuf::from);
    if dir.is_dir() {
        return Some(dir);
    }
    assert!(std::env::var_os("CI").is_none(), "no recordings at {}", dir.display());
    tracing::error!("SKIPPED: no recordings at {}", dir.display());
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recorded_single_node_deployment_serves() {
    let Some(golden) = golden() else { return };
    let name = "qwen2-7b-instruct-single-kserve";
    let file = golden
        .join(format!("cases/sample-single-node-gpu-qwen2-7b-gpu/expected/children/deployment-{name}.yaml"));
    let mut object: Value = serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    object["metadata"] = json!({"name": name, "labels": object["metadata"]["labels"]});
    // What is recorded mixes the schemes; there is no TLS in this test's server.
    object["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]["httpGet"]["scheme"] = json!("HTTP");
    object["spec"]["replicas"] = json!(2);

    let world = World::start().await;
    let secret = object["spec"]["template"]["spec"]["volumes"]
        .as_array()
        .unwrap()
        .iter()
        .find_map(|volume| volume["secret"]["secretName"].as_str())
        .unwrap()
        .to_owned();
    world
        .create::<Secret>(
            json!({"metadata": {"name": secret}, "stringData": {"tls.crt": "c", "tls.key": "k"}}),
        )
        .await;
    let began = Instant::now();
    world.create::<Deployment>(object).await;
    world
        .until::<Deployment>(name, "available", |d| {
            d.status.as_ref().and_then(|s| s.available_replicas) == Some(2)
        })
        .await;
    tracing::info!(took = ?began.elapsed(), "two replicas available");

    let pods = world.api::<Pod>().list(&ListParams::default()).await.unwrap();
    for pod in &pods {
        assert!(http_get(&format!("{}:8000", pod_ip(pod))).await.is_some());
        let pod_name = pod.metadata.name.as_deref().unwrap();
        let fetch = LogOptions { container: Some("storage-initializer".into()), ..LogOptions::default() };
        assert_eq!(
            world.logs(pod_name, fetch).await.unwrap(),
            "fetch=skip from hf://Qwen/Qwen2.5-7B-Instruct\n"
        );
        let main = world
            .logs(pod_name, LogOptions { container: Some("main".into()), ..LogOptions::default() })
            .await
            .unwrap();
        assert!(main.contains("[access-log-detect] vllm version='0.22.1'"), "{main}");
    }
    world.end().await;
}
