//! TLS between the gateway and the pods of a service.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    http,
    load::Load,
    local_cluster::{LocalCluster, MODEL, example},
    tools,
    wait::until,
};

/// The schemes of the readiness probes of the model servers that run.
fn schemes(world: &LocalCluster) -> Vec<String> {
    let pods = world.object(&["pods", "-l", "kserve.io/component=workload"]);
    let probe = "/spec/containers/0/readinessProbe/httpGet/scheme";
    let scheme = |pod: &Value| pod.pointer(probe).and_then(Value::as_str).unwrap_or("HTTP").to_owned();
    pods["items"].as_array().unwrap().iter().map(scheme).collect()
}

#[test]
fn a_service_that_serves_gets_tls_and_loses_it_again_without_a_failed_request() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::start(&[example().to_str().unwrap()]);
    let settings = world.object(&["cm", "inferenceservice-config", "-n", "kserve"]);
    let mut ingress: Value = serde_json::from_str(settings["data"]["ingress"].as_str().unwrap()).unwrap();
    let load = Load::streams(&world.url, MODEL);
    load.goes_on();
    for (tls, scheme) in [(true, "HTTPS"), (false, "HTTP")] {
        ingress["enableLLMInferenceServiceTLS"] = tls.into();
        let patch = json!({"data": {"ingress": ingress.to_string()}}).to_string();
        world.ask(&["patch", "cm", "inferenceservice-config", "-n", "kserve", "--type=merge", "-p", &patch]);
        until("pods of the other kind only", || schemes(&world) == [scheme]);
        load.goes_on();
    }
    let failed = load.end();
    assert!(failed.is_empty(), "{} requests failed: {:?}", failed.len(), failed.first());
}

#[test]
fn a_new_prefill_pod_answers_before_its_certificate_has_its_address() {
    const PREFILL_MODEL: &str = "Qwen/Qwen2.5-7B-Instruct";
    if tools::kubectl().is_none() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let gateway = "kserve/kserve-ingress-gateway";
    let ingress = json!({"enableLLMInferenceServiceTLS": true,
        "ingressGateway": gateway, "kserveIngressGateway": gateway});
    let storage = json!({"memoryRequest": "1Gi", "memoryLimit": "1Gi", "cpuRequest": "1", "cpuLimit": "1"});
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "inferenceservice-config", "namespace": "kserve"},
        "data": {"ingress": ingress.to_string(), "storageInitializer": storage.to_string()}});
    let settings_file = folder.path().join("settings.yaml");
    fs::write(&settings_file, settings.to_string()).unwrap();
    let service = tools::root().join("examples/prefill-decode/service.yaml");
    let world = LocalCluster::start(&[settings_file.to_str().unwrap(), service.to_str().unwrap()]);

    let ready = || {
        let pods = world.object(&["pods", "-l", "llm-d.ai/role=prefill"])["items"].clone();
        let [pod] = pods.as_array()?.as_slice() else { return None };
        let conditions = pod["status"]["conditions"].as_array()?;
        let is_ready = conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
        is_ready.then(|| pod["metadata"]["name"].as_str().unwrap().to_owned())
    };
    let former = until("a prefill pod", ready);
    world.ask(&["delete", "pod", &former]);
    until("a new prefill pod", || ready().filter(|name| *name != former));
    // Each prompt is new, so that no engine has it.
    for number in 0..8 {
        let prompt = format!("{number}. {}", "Why is the sea salty? ".repeat(100));
        let body = json!({"model": PREFILL_MODEL, "prompt": prompt, "max_tokens": 2});
        let answer = http::post(&format!("{}/v1/completions", world.url), &body);
        assert_eq!(answer.status, 200, "{number}: {}", answer.body);
    }
}
