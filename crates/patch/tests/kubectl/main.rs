//! Compares strategic merge with upstream's own implementation: `kubectl patch --local`.
//!
//! One call patches several pods with one patch, so that a few hundred comparisons take only seconds.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use proptest::{prelude::*, strategy::ValueTree as _, test_runner::TestRunner};
use serde_json::{Map, Value, json};

/// The number of patches, each for [`PODS`] pods.
const PATCHES: usize = 60;
const PODS: usize = 6;

fn name() -> impl Strategy<Value = String> {
    "[a-d]"
}

fn env() -> impl Strategy<Value = Vec<Value>> {
    prop::collection::btree_map(
        "[X-Z]",
        prop_oneof![Just(json!({"value": "1"})), Just(json!({"value": "2"}))],
        0..3,
    )
    .prop_map(|map| map.into_iter().map(|(name, value)| with(value, "name", json!(name))).collect::<Vec<_>>())
    .prop_shuffle()
}

fn with(mut object: Value, key: &str, value: Value) -> Value {
    object[key] = value;
    object
}

fn container() -> impl Strategy<Value = Value> {
    (
        name(),
        env(),
        prop::option::of("[i-k]"),
        prop::collection::vec("[p-q]", 0..2),
        prop::option::of(80_i32..83),
    )
        .prop_map(|(name, env, image, args, port)| {
            let mut container = json!({"name": name, "env": env});
            if let Some(image) = image {
                container["image"] = json!(image);
            }
            if !args.is_empty() {
                container["args"] = json!(args);
            }
            if let Some(port) = port {
                container["ports"] = json!([{"containerPort": port, "protocol": "TCP"}]);
            }
            container
        })
}

fn containers() -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(container(), 0..4).prop_map(unique)
}

fn unique(list: Vec<Value>) -> Vec<Value> {
    let mut kept: Vec<Value> = Vec::new();
    for element in list {
        if kept.iter().all(|other| other["name"] != element["name"]) {
            kept.push(element);
        }
    }
    kept
}

fn pod() -> impl Strategy<Value = Value> {
    let labels = prop::collection::btree_map("[l-n]", "[1-2]", 0..3);
    let finalizers = prop::collection::btree_set("x.y/[1-4]", 0..3);
    let source = prop_oneof![Just(json!({"emptyDir": {}})), Just(json!({"secret": {"secretName": "s"}}))];
    let volumes = prop::collection::btree_map("[v-w]", source, 0..2);
    (containers(), labels, finalizers, volumes).prop_map(|(containers, labels, finalizers, volumes)| {
        let volumes: Vec<Value> =
            volumes.into_iter().map(|(name, source)| with(source, "name", json!(name))).collect();
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "labels": labels, "finalizers": finalizers},
            "spec": {"containers": containers, "volumes": volumes, "tolerations": [{"key": "t"}]},
        })
    })
}

/// A container of a patch, sometimes with a directive, and with nulls.
fn patch_container() -> impl Strategy<Value = Value> {
    (container(), 0..10).prop_map(|(mut container, dice)| match dice {
        0 => json!({"name": container["name"], "$patch": "delete"}),
        1 => json!({"$patch": "replace"}),
        2 => {
            container["image"] = Value::Null;
            container
        }
        3 => {
            let keys: Vec<String> =
                container.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default();
            container["$retainKeys"] = json!(keys);
            container
        }
        4 => {
            if let Some(map) = container.as_object_mut() {
                map.remove("name");
            }
            container
        }
        _ => container,
    })
}

fn patch() -> impl Strategy<Value = Value> {
    let containers = prop::collection::vec(patch_container(), 0..4);
    let labels = prop::option::of(prop::collection::btree_map(
        prop_oneof![4 => "[l-n]", 1 => Just("$patch".to_owned())],
        prop_oneof![3 => "[1-2]".prop_map(Value::from), 1 => Just(Value::Null), 1 => Just(json!("replace")), 1 => Just(json!("delete"))],
        0..3,
    ));
    let finalizers = prop::option::of(prop::collection::btree_set("x.y/[1-4]", 0..3));
    let order = prop::option::of(Just(()));
    (containers, labels, finalizers, order, any::<bool>()).prop_map(
        |(containers, labels, finalizers, order, delete)| {
            let mut spec = json!({"containers": containers, "tolerations": [{"key": "u"}]});
            if order.is_some() {
                let order: Vec<Value> = containers
                    .iter()
                    .filter(|container| container.get("$patch").is_none())
                    .filter_map(|container| container.get("name"))
                    .map(|name| json!({"name": name}))
                    .collect();
                spec["$setElementOrder/containers"] = Value::Array(order);
            }
            let mut metadata = Map::new();
            if let Some(labels) = labels {
                metadata.insert("labels".to_owned(), json!(labels));
            }
            if let Some(finalizers) = finalizers {
                let key = if delete { "$deleteFromPrimitiveList/finalizers" } else { "finalizers" };
                metadata.insert(key.to_owned(), json!(finalizers));
            }
            json!({"metadata": metadata, "spec": spec})
        },
    )
}

/// Patches the pods with kubectl. Returns the result or the error.
fn kubectl(pods: &[Value], patch: &Value) -> Result<Vec<Value>, String> {
    let input = json!({"apiVersion": "v1", "kind": "List", "items": pods});
    let mut child = Command::new("kubectl")
        .args(["patch", "--local", "--type=strategic", "-o", "json", "-f", "-", "-p", &patch.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(serde_json::Deserializer::from_slice(&output.stdout).into_iter().map(Result::unwrap).collect())
}

#[test]
fn kubectl_merges_alike() {
    if Command::new("kubectl").args(["version", "--client"]).output().is_err() {
        longboat_golden::skipped("no kubectl on the PATH");
        return;
    }
    let mut runner = TestRunner::deterministic();
    for _ in 0..PATCHES {
        let patch = patch().new_tree(&mut runner).unwrap().current();
        let pods: Vec<Value> = (0..PODS).map(|_| pod().new_tree(&mut runner).unwrap().current()).collect();
        let ours: Vec<_> = pods
            .iter()
            .map(|pod| longboat_patch::strategic::merge(pod.clone(), patch.clone(), "core.v1.Pod"))
            .collect();
        match kubectl(&pods, &patch) {
            Ok(theirs) => {
                for ((pod, ours), theirs) in pods.iter().zip(ours).zip(theirs) {
                    assert_eq!(ours.as_ref(), Ok(&theirs), "\npatch {patch}\npod {pod}");
                }
            }
            Err(text) => {
                let error = ours.into_iter().find_map(Result::err);
                let error = error.unwrap_or_else(|| panic!("kubectl: {text}\npatch {patch}"));
                assert!(text.contains(&error.to_string()), "\nkubectl {text}\nours {error}\npatch {patch}");
            }
        }
    }
}
