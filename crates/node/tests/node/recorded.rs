//! Tests with pods that KServe's controller creates, from its recordings.

use std::time::Instant;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::ListParams;
use longboat_apiserver::pod_access::LogOptions;
use serde_json::{Value, json};

use crate::test_node::{TestNode, http_get, pod_ip};

/// Returns the start script of Longboat's preset: the recordings do not contain KServe's.
fn script() -> Value {
    let children = include_str!("../../../../tests/cases/compose/single-node/children.yaml");
    let objects = children.split("\n---\n").map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
    let mut scripts = objects.filter_map(|object| {
        let containers = object["spec"]["template"]["spec"]["containers"].as_array()?;
        let main = containers.iter().find(|container| container["name"] == "main")?;
        Some(main["command"][2].clone())
    });
    scripts.find(Value::is_string).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recorded_single_node_deployment_serves() {
    let name = "qwen2-7b-instruct-single-kserve";
    let case = longboat_golden::part("cases/sample-single-node-gpu-qwen2-7b-gpu");
    let mut object = case.join(&format!("expected/children/deployment-{name}.yaml")).yaml();
    object["spec"]["template"]["spec"]["containers"][0]["command"][2] = script();
    object["metadata"] = json!({"name": name, "labels": object["metadata"]["labels"]});
    // The recording mixes the schemes; this test's server has no TLS.
    object["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]["httpGet"]["scheme"] = json!("HTTP");
    object["spec"]["replicas"] = json!(2);

    let world = TestNode::start().await;
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
    }
    world.end().await;
}
