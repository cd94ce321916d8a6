//! Nothing is written while nothing changes.

use std::{collections::BTreeMap, thread, time::Duration};

use crate::{local_cluster::LocalCluster, tools, wait::until};

/// Returns the resourceVersions of all objects except Leases and Events, which are renewed all the time.
fn versions(world: &LocalCluster) -> BTreeMap<String, String> {
    let names = world.ask(&["api-resources", "--verbs=list", "-o", "name"]);
    let kinds: Vec<_> = names
        .lines()
        .filter(|name| !["events", "events.events.k8s.io", "leases.coordination.k8s.io"].contains(name))
        .collect();
    let list = world.object(&["-A", &kinds.join(",")]);
    let items = list["items"].as_array().unwrap().iter();
    let versions = items.map(|object| {
        let text =
            |pointer: &str| object.pointer(pointer).and_then(|value| value.as_str()).unwrap_or_default();
        let name = format!("{} {}/{}", text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
        (name, text("/metadata/resourceVersion").to_owned())
    });
    versions.collect()
}

#[test]
fn a_world_at_rest_writes_nothing() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::shared();
    // Effects of an earlier test may still be in progress.
    let mut before = versions(world);
    until("a world at rest", || {
        thread::sleep(Duration::from_secs(2));
        let now = versions(world);
        let rests = now == before;
        before = now;
        rests
    });
    assert!(before.keys().any(|name| name == "LLMInferenceService default/qwen"), "{before:#?}");
    thread::sleep(Duration::from_secs(5));
    assert_eq!(versions(world), before);
}
