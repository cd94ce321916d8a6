//! The engines and the routing sidecar of a disaggregated service are killed under load.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{load::Load, local_cluster::LocalCluster, processes, tools, wait::until};

const MODEL: &str = "Qwen/Qwen2.5-7B-Instruct";

/// Returns the example with two pods for each role and slow answers, so that some requests are in flight when a process dies. A
/// decode pod computes the prompt itself if the prefill fails.
fn service() -> Value {
    let path = tools::root().join("examples/prefill-decode/service.yaml");
    let mut service: Value = serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let slow = json!([{"name": "main", "env": [{"name": "VLLM_ADDITIONAL_ARGS", "value": "--inter-token-latency 15ms"}]}]);
    service["spec"]["replicas"] = 2.into();
    service["spec"]["prefill"]["replicas"] = 2.into();
    service["spec"]["template"] = json!({
        "initContainers": [{"name": "llm-d-routing-sidecar", "args": ["--decode-on-prefill-failure"]}],
        "containers": slow,
    });
    service["spec"]["prefill"]["template"] = json!({"containers": slow});
    service
}

/// Waits for a process of the node whose command line contains `wanted`, in a prefill pod or not, except those in `but`.
fn process(world: &LocalCluster, wanted: &str, of_prefill: bool, but: &[u32]) -> u32 {
    let node = world.node_id();
    until(wanted, || {
        processes::with_variable(&node).into_iter().find(|pid| {
            let pod = processes::variables(*pid).get("HOSTNAME").cloned().unwrap_or_default();
            !but.contains(pid)
                && processes::command_line(*pid).contains(wanted)
                && pod.contains("prefill") == of_prefill
        })
    })
}

#[test]
fn a_prefill_engine_that_dies_costs_no_request_and_one_that_decodes_only_those_that_it_had_begun() {
    if tools::kubectl().is_none() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("pd.yaml");
    fs::write(&file, service().to_string()).unwrap();
    let world = LocalCluster::start(&[file.to_str().unwrap()]);

    let plain = Load::start(&world.url, MODEL);
    let streams = Load::streams(&world.url, MODEL);
    let mut dead = Vec::new();
    for _ in 0..2 {
        plain.goes_on();
        streams.goes_on();
        let pid = process(&world, "vllm serve", true, &dead);
        processes::signal("KILL", pid);
        dead.push(pid);
        plain.goes_on();
        streams.goes_on();
    }
    let answered = (plain.answered(), streams.answered());
    for load in [plain, streams] {
        assert_eq!(load.end(), Vec::<String>::new(), "requests that failed, of {answered:?}");
    }

    // Only the requests in flight in the killed process are lost: at most as many as there are at a time.
    for (wanted, clients) in [("vllm serve", 2), ("pd-sidecar", 200)] {
        let streams = Load::crowd(clients, &world.url, MODEL);
        streams.goes_on();
        processes::signal("KILL", process(&world, wanted, false, &dead));
        streams.goes_on();
        let answered = streams.answered();
        let failed = streams.end();
        for answer in failed.iter().filter(|answer| answer.contains("status: 200")) {
            assert!(answer.contains("the model server ended in the middle of this answer"), "{answer}");
        }
        // The other sidecar has its share of the streams.
        let most = if clients == 2 { 2 } else { clients * 3 / 4 };
        assert!(
            failed.len() <= most,
            "{} failed, of {answered}, when {wanted} died: {failed:?}",
            failed.len()
        );
    }
}
