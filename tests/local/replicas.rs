//! Three replicas: prefix affinity, load spreading, and the death of a replica.

use std::{collections::BTreeMap, fmt::Write, fs};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    http::{self, Answer},
    load::Load,
    local_cluster::{LocalCluster, MODEL, example},
    processes, tools,
    wait::until,
};

fn complete(url: &str, prompt: &str) -> Answer {
    http::post(&format!("{url}/v1/completions"), &json!({"model": MODEL, "prompt": prompt, "max_tokens": 4}))
}

/// Returns a text of many KV cache blocks that shares no prefix with the texts of other numbers.
fn book(number: usize) -> String {
    (0..300).fold(format!("Book {number}."), |mut text, line| {
        let _ = write!(text, " Rule {line}: boat {} keeps right.", line * 31 + number);
        text
    })
}

/// Waits for the process of a pod's model server.
fn engine(world: &LocalCluster, address: &str) -> u32 {
    let variable = format!("LONGBOAT_POD_IP={address}");
    let node = world.node_id();
    until("the pod's process", || {
        let mine = processes::with_variable(&node);
        let all = processes::with_variable(&variable);
        all.into_iter()
            .find(|pid| mine.contains(pid) && processes::command_line(*pid).starts_with("vllm serve"))
    })
}

fn main_status(world: &LocalCluster, pod: &str) -> Value {
    world.object(&["pod", pod])["status"]["containerStatuses"][0].clone()
}

#[test]
fn prefixes_stay_together_others_spread_and_a_killed_replica_costs_no_request() {
    if tools::kubectl().is_none() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("three.yaml");
    fs::write(&file, fs::read_to_string(example()).unwrap().replace("replicas: 1", "replicas: 3")).unwrap();
    let world = LocalCluster::start(&[file.to_str().unwrap()]);
    let url = world.url.as_str();

    for number in 0..3 {
        let book = book(number);
        let first = complete(url, &format!("{book} Question one?"));
        let home = first.pod().to_owned();
        for question in ["Question two?", "Which boat?", "And rule seven?", "Why?"] {
            let next = complete(url, &format!("{book} {question}"));
            assert_eq!(next.pod(), home, "book {number} moved");
            let cached = &next.json()["usage"]["prompt_tokens_details"]["cached_tokens"];
            assert!(cached.as_u64().unwrap() > 500, "the replica knows the prefix: {next:?}");
        }
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for number in 0..18 {
        let answer = complete(url, &format!("{number} unrelated, {} times. ", number * 7919).repeat(20));
        *counts.entry(answer.pod().to_owned()).or_default() += 1;
    }
    assert_eq!(counts.len(), 3, "{counts:?}");
    assert!(counts.values().all(|count| *count >= 2), "{counts:?}");

    let pod = counts.keys().next().unwrap();
    let address = world.ask(&["get", "pod", pod, "-o", "jsonpath={.status.podIP}"]);
    let load = Load::start(url, MODEL);
    load.goes_on();
    processes::signal("KILL", engine(&world, &address));
    until("a restart", || main_status(&world, pod)["restartCount"] == 1);
    until("the replica is ready again", || main_status(&world, pod)["ready"] == true);
    world.ask(&["wait", "--for=condition=Ready", "llmisvc/qwen", "--timeout=120s"]);
    load.goes_on();
    assert_eq!(load.end(), Vec::<String>::new(), "requests that failed");
    assert_eq!(main_status(&world, pod)["lastState"]["terminated"]["exitCode"], 137);

    // After repeated crashes, the pod shows the kubelet's back-off.
    until("the back-off", || {
        let status = main_status(&world, pod);
        if status["state"]["running"].is_object() {
            processes::signal("KILL", engine(&world, &address));
            let count = status["restartCount"].clone();
            until("the end of the process is seen", || {
                let now = main_status(&world, pod);
                now["state"]["running"].is_null() || now["restartCount"] != count
            });
        }
        main_status(&world, pod)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    });
    assert_eq!(http::get(&format!("{url}/v1/models")).status, 200, "the others still serve");
}
