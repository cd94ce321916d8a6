//! Prefill and decode apart under `up`, with every connector of the routing sidecar.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    http,
    proof::counted,
    tools,
    world::{World, turn},
};

const MODEL: &str = "Qwen/Qwen2.5-7B-Instruct";

/// The example, with further arguments for the sidecar and for the engines.
fn service(sidecar: &[&str], decode: &str, prefill: &str) -> Value {
    let path = tools::root().join("examples/prefill-decode/service.yaml");
    let mut service: Value = serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let engine = |arguments: &str| json!([{"name": "main", "env": [{"name": "VLLM_ADDITIONAL_ARGS", "value": arguments}]}]);
    service["spec"]["template"] = json!({
        "initContainers": [{"name": "llm-d-routing-sidecar", "args": sidecar}],
        "containers": engine(decode),
    });
    service["spec"]["prefill"]["template"] = json!({"containers": engine(prefill)});
    service
}

#[test]
fn a_prompt_is_computed_by_one_pod_and_answered_by_another_with_every_connector() {
    if tools::kubectl().is_none() {
        return;
    }
    let _turn = turn();
    for (sidecar, decode, prefill) in [
        (&["--kv-connector=nixlv2"][..], "", ""),
        (&["--kv-connector=mooncake", "--mooncake-bootstrap-port=8000"], "", ""),
        (&["--kv-connector=offloading"], "", ""),
        (&["--kv-connector=sglang"], "--disaggregation-mode decode", "--disaggregation-mode prefill"),
        (&["--moriio-write-mode", "--moriio-local-pod-ip=127.0.0.1", "--moriio-parallel-dispatch"], "", ""),
        (&["--kv-connector=shared-storage"], "", ""),
    ] {
        let folder = TempDir::new().unwrap();
        let manifest = folder.path().join("service.yaml");
        fs::write(&manifest, service(sidecar, decode, prefill).to_string()).unwrap();
        let world = World::start(&[manifest.to_str().unwrap()]);
        let body = json!({"model": MODEL, "max_tokens": 8,
            "messages": [{"role": "user", "content": "Why is the sea salty?"}]});
        let answer = http::post(&format!("{}/v1/chat/completions", world.url), &body);
        assert_eq!(answer.status, 200, "{sidecar:?}: {answer:?}");
        assert!(!answer.pod().contains("prefill"), "the decode pod answers: {answer:?}");
        // A storage that engines share says nothing about who has filled it.
        let has_source = answer.headers.contains_key("x-simulated-kv-source");
        let tells = sidecar != ["--kv-connector=shared-storage"];
        assert_eq!(has_source, tells, "{sidecar:?}: {answer:?}");
        // Both halves say the same in their metrics: one computed the prompt, the other one took its cache.
        assert!(
            counted(&world, "prefill", "vllm:prompt_tokens_total") > 0.0,
            "{sidecar:?}: nobody prefilled"
        );
        let taken = counted(&world, "decode", "vllm:external_prefix_cache_hits_total");
        assert_eq!(taken > 0.0, tells, "{sidecar:?}: {taken} tokens came");
    }
}
