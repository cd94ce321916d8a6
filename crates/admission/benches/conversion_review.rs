//! Measures how long a review with 500 objects takes, in each direction: services with pods, a pool, adapters and a status,
//! about 5 KiB each. API servers give a conversion webhook 30 seconds, and every list through `v1alpha1` waits for one.
//!
//! `cargo bench -p longboat-admission --bench conversion_review`

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use longboat_admission::{MalformedReview, Version, conversion_review};
use serde_json::{Value, json};

const OBJECTS: usize = 500;
const ROUNDS: usize = 40;

fn main() -> Result<(), MalformedReview> {
    let newer: Vec<Value> = (0..OBJECTS).map(service).collect();
    let older = converted(&conversion_review(&review(Version::V1Alpha1, &newer))?);
    for (target, objects) in [(Version::V1Alpha1, newer), (Version::V1Alpha2, older)] {
        let body = review(target, &objects);
        let mut rounds = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            black_box(conversion_review(black_box(&body))?);
            rounds.push(begun.elapsed());
        }
        rounds.sort_unstable();
        report(target, body.len(), rounds[ROUNDS / 2], rounds[ROUNDS - 1]);
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "its output is what it is for")]
fn report(target: Version, bytes: usize, median: Duration, slowest: Duration) {
    let size = bytes / 1024;
    println!("{OBJECTS} objects ({size} KiB) to {target}: median {median:.1?}, slowest {slowest:.1?}");
}

fn review(target: Version, objects: &[Value]) -> Vec<u8> {
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": target.api_version(), "objects": objects},
    });
    review.to_string().into_bytes()
}

fn converted(reply: &[u8]) -> Vec<Value> {
    let mut reply: Value = serde_json::from_slice(reply).unwrap_or_default();
    match reply["response"]["convertedObjects"].take() {
        Value::Array(objects) => objects,
        _ => Vec::new(),
    }
}

fn service(at: usize) -> Value {
    let pod = json!({"containers": [{
        "name": "main", "image": "vllm/vllm-openai:v0.11.0",
        "args": ["--max-model-len", "8192", "--gpu-memory-utilization", "0.9", "--enable-prefix-caching"],
        "env": (0..12).map(|n| json!({"name": format!("VARIABLE_{n}"), "value": "some value"})).collect::<Vec<_>>(),
        "resources": {"limits": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}, "requests": {"cpu": "4", "memory": "32Gi"}},
        "readinessProbe": {"httpGet": {"path": "/health", "port": 8000, "scheme": "HTTPS"}, "periodSeconds": 10, "failureThreshold": 60},
    }]});
    let fields: Value = (0..40).map(|n| (format!("f:field{n}"), json!({"f:a": {}, "f:b": {}}))).collect();
    json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
        "metadata": {
            "name": format!("llm-{at}"), "namespace": "team", "uid": "1", "resourceVersion": "7", "generation": 3,
            "annotations": {"internal.serving.kserve.io/model-criticality": "Critical"},
            "managedFields": [{"manager": "kubectl", "operation": "Apply", "apiVersion": "serving.kserve.io/v1alpha2", "fieldsV1": fields}],
        },
        "spec": {
            "model": {
                "uri": "hf://facebook/opt-125m", "name": "facebook/opt-125m", "confidential": {"enabled": false},
                "lora": {"adapters": [{"name": "a", "uri": "hf://a/a"}, {"name": "b", "uri": "hf://b/b"}]},
            },
            "kvCacheOffloading": {"cpu": "20Gi", "evictionPolicy": "lru"},
            "replicas": 2, "template": pod, "prefill": {"replicas": 1, "template": pod},
            "router": {"route": {}, "gateway": {}, "scheduler": {"pool": {"spec": {
                "selector": {"matchLabels": {"app": "llm"}}, "targetPorts": [{"number": 8000}, {"number": 8001}],
                "appProtocol": "http",
                "endpointPickerRef": {"name": "e", "kind": "Service", "group": "", "failureMode": "FailOpen", "port": {"number": 9002}},
            }}}},
        },
        "status": {
            "url": "http://203.0.113.10/team/llm", "observedGeneration": 3,
            "conditions": (0..8).map(|n| json!({"type": format!("Condition{n}"), "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"})).collect::<Vec<_>>(),
            "addresses": [{"name": "gateway-external", "url": "http://203.0.113.10/team/llm", "models": [{"name": "m"}],
                "origin": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "g", "namespace": "kserve"}}],
            "appliedConfigs": [{"name": "kserve-config-llm-template", "namespace": "kserve", "source": "Preset"}],
            "workloads": {"primary": {"apiGroup": "apps", "kind": "Deployment", "name": "llm-kserve", "readyReplicas": 2}},
        },
    })
}
