//! When a picker dies under load, or pods are replaced, no request fails. Also tests the root of the gateway of the same world.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    http,
    load::Load,
    local_cluster::{LocalCluster, MODEL, example},
    processes, tools,
    wait::until,
};

/// Makes answers slow, so that many requests are in flight when a picker dies.
const SLOW: &str = "  template:\n    containers:\n    - name: main\n      env:\n      - name: VLLM_ADDITIONAL_ARGS\n        value: --inter-token-latency 15ms\n";

/// The pods wait only a moment for pickers and gateways to hear of their end.
const ENDS_SOON: &str =
    "      lifecycle:\n        preStop:\n          exec:\n            command: [/bin/sleep, '2']\n";

/// How often a picker dies in each way.
const DEATHS: usize = 2;

/// Waits for a picker process other than `but`.
fn picker(world: &LocalCluster, but: Option<u32>) -> u32 {
    let node = world.node_id();
    until("the picker's process", || {
        let all = processes::with_variable(&node);
        all.into_iter().find(|pid| Some(*pid) != but && processes::command_line(*pid).contains("--pool-name"))
    })
}

/// Rolls all pods out, and then removes one, while the loads go on. The status says that pods drain.
fn roll(world: &LocalCluster, loads: &[&Load]) {
    let message = || {
        let path = "jsonpath={.status.conditions[?(@.type==\"MainWorkloadReady\")].message}";
        world.ask(&["get", "llmisvc", "qwen", "-o", path])
    };
    for patch in [r#"{"spec": {"annotations": {"round": "2"}}}"#, r#"{"spec": {"replicas": 1}}"#] {
        world.ask(&["patch", "llmisvc", "qwen", "--type=merge", "-p", patch]);
        until("pods that drain, in the status", || message().contains("no new requests"));
        until("the end of the drain", || message().is_empty());
        for load in loads {
            load.goes_on();
        }
    }
}

#[test]
fn neither_a_picker_that_dies_nor_a_roll_out_costs_a_request_and_the_root_knows_what_is_served() {
    if tools::kubectl().is_none() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("two.yaml");
    let manifest =
        std::fs::read_to_string(example()).unwrap().replace("replicas: 1", "replicas: 2") + SLOW + ENDS_SOON;
    std::fs::write(&file, manifest).unwrap();
    let world = LocalCluster::start(&[file.to_str().unwrap(), "--cors-origin", "https://chat.example"]);
    let root = world.url.strip_suffix("/default/qwen").expect("the service's path");
    front_door(&world, root);

    let plain = Load::start(&world.url, MODEL);
    let streams = Load::streams(&world.url, MODEL);
    let by_model = Load::streams(root, MODEL);
    let mut last = None;
    for signal in ["KILL", "TERM"] {
        for _ in 0..DEATHS {
            let pid = picker(&world, last);
            streams.goes_on();
            processes::signal(signal, pid);
            last = Some(pid);
            plain.goes_on();
            streams.goes_on();
            by_model.goes_on();
        }
    }
    roll(&world, &[&plain, &streams, &by_model]);
    let answered = (plain.answered(), streams.answered() + by_model.answered());
    for load in [plain, streams, by_model] {
        assert_eq!(load.end(), Vec::<String>::new(), "requests that failed, of {answered:?}");
    }
}

/// Waits for a picker process, other than `but`, that holds the lease of its pool. Returns its process id and its holder
/// identity.
fn active(world: &LocalCluster, but: &str) -> (u32, String) {
    let node = world.node_id();
    until("a picker that holds the lease", || {
        let leases = world.object(&["leases"]);
        let leases = leases["items"].as_array()?;
        let lease = leases
            .iter()
            .find(|lease| lease["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("epp-")))?;
        let holder = lease["spec"]["holderIdentity"].as_str()?;
        let (pod, _) = holder.rsplit_once('_').filter(|_| holder != but)?;
        let of_pod = |pid: &u32| {
            processes::command_line(*pid).contains("--pool-name")
                && processes::variables(*pid).values().any(|value| value == pod)
        };
        Some((processes::with_variable(&node).into_iter().find(of_pod)?, holder.to_owned()))
    })
}

#[test]
fn the_active_one_of_two_pickers_dies_and_costs_no_request() {
    if tools::kubectl().is_none() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("pair.yaml");
    let manifest = std::fs::read_to_string(example()).unwrap().replace("replicas: 1", "replicas: 2");
    let manifest = manifest.replace("scheduler: {}", "scheduler: {replicas: 2}") + SLOW;
    std::fs::write(&file, manifest).unwrap();
    let world = LocalCluster::start(&[file.to_str().unwrap()]);
    let plain = Load::start(&world.url, MODEL);
    let streams = Load::streams(&world.url, MODEL);
    let mut holder = String::new();
    for _ in 0..DEATHS {
        let pid;
        (pid, holder) = active(&world, &holder);
        plain.goes_on();
        streams.goes_on();
        processes::signal("KILL", pid);
        // While no picker holds the lease, requests go to any endpoint. Then another picker takes over.
        plain.goes_on();
        streams.goes_on();
    }
    active(&world, &holder);
    plain.goes_on();
    streams.goes_on();
    let answered = (plain.answered(), streams.answered());
    for load in [plain, streams] {
        assert_eq!(load.end(), Vec::<String>::new(), "requests that failed, of {answered:?}");
    }
}

fn front_door(world: &LocalCluster, root: &str) {
    let models = http::get(&format!("{root}/v1/models")).json();
    assert_eq!(models["data"][0]["id"], MODEL);
    let index = http::get(&format!("{root}/"));
    assert!(index.body.contains(&world.url) && index.body.contains(MODEL), "{index:?}");
    let ask = |model: &str| {
        let body =
            json!({"model": model, "max_tokens": 2, "messages": [{"role": "user", "content": "Hello"}]});
        http::post(&format!("{root}/v1/chat/completions"), &body)
    };
    assert_eq!(ask(MODEL).json()["usage"]["completion_tokens"], 2);
    let unknown = ask("nobody");
    assert_eq!(unknown.status, 404);
    let message: Value = unknown.json()["error"]["message"].clone();
    assert!(message.as_str().unwrap().contains(MODEL), "{message}");

    let get = |header: &str, value: &str| {
        http::block(async { http::client().get(root).header(header, value).send().await.unwrap() })
    };
    assert_eq!(get("host", "evil.example").status(), 403);
    assert_eq!(get("origin", "https://evil.example").status(), 403);
    let shared = get("origin", "https://chat.example");
    assert_eq!(shared.headers()["access-control-allow-origin"], "https://chat.example");
}
