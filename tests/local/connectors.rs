//! Disaggregated prefill under `up` with every connector of the routing sidecar, all in one world. The engines' metrics show
//! which engine computed the prompt, and the condition must agree.

use std::{fs, path::Path};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{http, local_cluster::LocalCluster, proof::counted, tools, wait::until};

const MODEL: &str = "Qwen/Qwen2.5-7B-Instruct";

/// One connector, which has its own service.
struct Case {
    /// The service.
    name: &'static str,
    /// Further arguments of the sidecar.
    sidecar: &'static [&'static str],
    /// Further arguments of both engines.
    engines: [&'static str; 2],
}

const fn case(name: &'static str, sidecar: &'static [&'static str]) -> Case {
    Case { name, sidecar, engines: ["", ""] }
}

/// The connector whose engines exchange KV cache blocks through a folder.
const STORAGE: &str = "storage";

const CASES: [Case; 6] = [
    case("nixl", &["--kv-connector=nixlv2"]),
    case("mooncake", &["--kv-connector=mooncake", "--mooncake-bootstrap-port=8000"]),
    case("offloading", &["--kv-connector=offloading"]),
    Case {
        name: "sglang",
        sidecar: &["--kv-connector=sglang"],
        engines: ["--disaggregation-mode decode", "--disaggregation-mode prefill"],
    },
    case("moriio", &["--moriio-write-mode", "--moriio-local-pod-ip=127.0.0.1", "--moriio-parallel-dispatch"]),
    case(STORAGE, &["--kv-connector=shared-storage"]),
];

/// Returns the example with the connector of a case and an additional argument of the decode engine. The controller sends it a
/// proof request.
fn service(case: &Case, storage: &Path, argument: &str) -> Value {
    let path = tools::root().join("examples/prefill-decode/service.yaml");
    let mut service: Value = serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let engine = |arguments: &str| json!([{"name": "main", "env": [{"name": "VLLM_ADDITIONAL_ARGS", "value": arguments}]}]);
    let shared = |folder: &Path| {
        let extra = json!({"shared_storage_path": folder});
        let config = json!({"kv_connector": "ExampleConnector", "kv_role": "kv_both", "kv_connector_extra_config": extra});
        format!("--kv-transfer-config '{config}'")
    };
    let [mut decode, mut prefill] = case.engines.map(str::to_owned);
    if case.name == STORAGE {
        prefill = shared(storage);
        decode.clone_from(&prefill);
    }
    let decode = format!("{decode} {argument}");
    service["metadata"] = json!({
        "name": case.name, "namespace": "default", "annotations": {"longboat.dev/serving-proof": "report"},
    });
    service["spec"]["template"] = json!({
        "initContainers": [{"name": "llm-d-routing-sidecar", "args": case.sidecar}],
        "containers": engine(&decode),
    });
    service["spec"]["prefill"]["template"] = json!({"containers": engine(&prefill)});
    service
}

/// Returns the services of all cases as a List.
fn all(storage: &Path, argument: &str) -> String {
    let services: Vec<Value> = CASES.iter().map(|case| service(case, storage, argument)).collect();
    json!({"apiVersion": "v1", "kind": "List", "items": services}).to_string()
}

/// Waits until the condition KVTransferObserved has this status and reason, and returns its message.
fn transfer(world: &LocalCluster, service: &str, status: &str, reason: &str) -> String {
    until(&format!("{service}: KVTransferObserved={status} {reason}"), || {
        let live = world.object(&["llmisvc", service]);
        let mut conditions = live["status"]["conditions"].as_array()?.iter();
        let found = conditions.find(|found| found["type"] == "KVTransferObserved")?;
        (found["status"] == status && found["reason"] == reason)
            .then(|| found["message"].as_str().unwrap_or_default().to_owned())
    })
}

/// Sends a request through the gateway, and checks that the decode pod answers.
fn ask(root: &str, service: &str) -> http::Answer {
    let body = json!({"model": MODEL, "max_tokens": 8,
        "messages": [{"role": "user", "content": "Why is the sea salty?"}]});
    let answer = http::post(&format!("{root}/{service}/v1/chat/completions"), &body);
    assert_eq!(answer.status, 200, "{service}: {answer:?}");
    assert!(answer.pod().starts_with(&format!("{service}-kserve-")), "{service}: {answer:?}");
    assert!(!answer.pod().contains("prefill"), "the decode pod answers: {answer:?}");
    answer
}

#[test]
fn every_connector_brings_the_cache_of_another_pod_or_does_not_and_the_condition_says_so() {
    if tools::kubectl().is_none() {
        return;
    }
    let folder = TempDir::new().unwrap();
    // Not in /tmp, because each pod has its own /tmp.
    let shared = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let storage = shared.path().join("kv");
    let manifest = folder.path().join("services.json");
    fs::write(&manifest, all(&storage, "")).unwrap();
    let world = LocalCluster::start(&[manifest.to_str().unwrap()]);
    let (root, _) = world.url.rsplit_once('/').unwrap();

    for Case { name, .. } in &CASES {
        let said = transfer(&world, name, "True", "KVTransferred");
        let computed = counted(&world, name, "prefill", "vllm:prompt_tokens_total");
        let answer = ask(root, name);
        let more = counted(&world, name, "prefill", "vllm:prompt_tokens_total") - computed;
        assert!(more > 0.0, "{name}: the prefill pod computed nothing for {answer:?}");
        // A shared storage does not tell which engine filled it.
        let is_told = *name != STORAGE;
        assert_eq!(answer.headers.contains_key("x-simulated-kv-source"), is_told, "{name}: {answer:?}");
        let taken = counted(&world, name, "decode", "vllm:external_prefix_cache_hits_total");
        assert!(taken > 0.0, "{name}: nothing came");
        let evidence = if is_told { "vllm:external_prefix_cache_hits increased" } else { "cached_tokens" };
        assert!(said.contains(evidence), "{name}: {said}");
    }

    // From now on every KV transfer is lost, and no answer reports one.
    fs::write(&manifest, all(&storage, "--kv-transfer-loss-rate=100")).unwrap();
    world.ask(&["apply", "-f", manifest.to_str().unwrap()]);
    for Case { name, .. } in &CASES {
        let said = transfer(&world, name, "False", "KVNotTransferred");
        assert!(
            said.contains("prefill worked, but the decode pods computed the prompt of "),
            "{name}: {said}"
        );
        assert!(said.contains("compare --kv-transfer-config"), "{name}: {said}");
        let connector = if *name == STORAGE { "ExampleConnector" } else { "none" };
        assert!(said.contains(&format!("connector of prefill and decode: {connector})")), "{name}: {said}");
        let answer = ask(root, name);
        assert!(!answer.headers.contains_key("x-simulated-kv-source"), "{name}: {answer:?}");
    }
}
