//! Prefill and decode pods of two revisions exist at once under `up`, and no request uses pods of both.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{http, local_cluster::LocalCluster, tools, wait::until};

const REVISION: &str = "longboat.dev/kv-revision";

/// Returns the example with the annotation that keeps pods of different revisions apart.
fn manifest() -> Value {
    let path = tools::root().join("examples/prefill-decode/service.yaml");
    let mut service: Value = serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    service["metadata"]["annotations"] = json!({"longboat.dev/kv-pairing": "true"});
    service
}

fn pods(world: &LocalCluster, role: &str) -> Vec<Value> {
    let list = world.object(&["pods", "-l", &format!("llm-d.ai/role={role}")]);
    list["items"].as_array().unwrap().clone()
}

/// Creates a pod of another revision, as during a rollout. Returns its name.
fn older(world: &LocalCluster, role: &str) -> String {
    let mut pod = pods(world, role).remove(0);
    let name = format!("older-{role}");
    let mut labels = pod["metadata"]["labels"].clone();
    labels.as_object_mut().unwrap().remove("pod-template-hash");
    labels[REVISION] = json!("older");
    pod["metadata"] = json!({"name": name, "namespace": "default", "labels": labels});
    pod["spec"].as_object_mut().unwrap().remove("nodeName");
    pod.as_object_mut().unwrap().remove("status");
    let file = world.file(&format!("{name}.json"), &pod.to_string());
    world.ask(&["create", "-f", &file]);
    name
}

/// Returns the revisions of pods, by name and by address.
fn revisions(world: &LocalCluster) -> BTreeMap<String, String> {
    let mut known = BTreeMap::new();
    for pod in pods(world, "decode").into_iter().chain(pods(world, "prefill")) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let revision = text(&pod["metadata"]["labels"][REVISION]);
        for name in [&pod["metadata"]["name"], &pod["status"]["podIP"]] {
            known.insert(text(name), revision.clone());
        }
    }
    known
}

/// Sends a request. Returns the revision of the decode pod, and that of the prefill pod whose KV cache it used, or `None` if it
/// computed the prompt itself.
fn pair(world: &LocalCluster, known: &BTreeMap<String, String>, number: usize) -> (String, Option<String>) {
    let prompt = format!("{number}: why is the sea salty, and the rain is not? ").repeat(20);
    let body = json!({"model": "Qwen/Qwen2.5-7B-Instruct", "max_tokens": 4,
        "messages": [{"role": "user", "content": prompt}]});
    let answer = http::post(&format!("{}/v1/chat/completions", world.url), &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    let revision = |name: &str| known.get(name).unwrap_or_else(|| panic!("{name}: {known:?}")).clone();
    (revision(answer.pod()), answer.headers.get("x-simulated-kv-source").map(|source| revision(source)))
}

#[test]
fn pods_of_two_revisions_serve_and_none_takes_the_cache_of_the_other() {
    if tools::kubectl().is_none() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("service.json");
    fs::write(&file, manifest().to_string()).unwrap();
    let world = LocalCluster::start(&[file.to_str().unwrap()]);
    let live = world.object(&["llmisvc", "qwen-pd"]);
    let conditions = live["status"]["conditions"].as_array().unwrap();
    let said = conditions.iter().find(|found| found["type"] == "KVPaired").unwrap();
    assert_eq!((&said["status"], &said["reason"]), (&json!("True"), &json!("OneRevision")), "{said}");

    for role in ["decode", "prefill"] {
        let name = older(&world, role);
        world.ask(&["wait", "--for=condition=Ready", "pod", &name]);
    }
    let known = revisions(&world);
    assert_eq!(known.values().collect::<BTreeSet<_>>().len(), 2, "two revisions live: {known:?}");
    let mut number = 0;
    let mut seen = BTreeSet::new();
    let (newer, older) = until("both revisions have decoded", || {
        for _ in 0..10 {
            number += 1;
            let (decode, prefill) = pair(&world, &known, number);
            if let Some(prefill) = prefill {
                assert_eq!(decode, prefill, "request {number} crossed");
                seen.insert(decode);
            }
        }
        let (older, newer): (Vec<_>, Vec<_>) = seen.iter().partition(|revision| *revision == "older");
        Some(((*newer.first()?).clone(), (*older.first()?).clone()))
    });
    assert_ne!(newer, older);

    world.ask(&["delete", "pod", "older-prefill"]);
    // A decode pod without a prefill pod of its revision computes prompts itself.
    until("the decode pod without a partner has answered alone", || {
        number += 1;
        let (decode, prefill) = pair(&world, &known, number);
        assert!(prefill.as_ref().is_none_or(|prefill| *prefill == decode), "request {number} crossed");
        decode == "older" && prefill.is_none()
    });
}
