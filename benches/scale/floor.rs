//! The least that it takes: the same objects, written by a client that does nothing else.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    api::Api,
    cluster::Turn,
    services::{CHILDREN, NAMESPACES},
};

/// Requests at the same time: more make the server no faster.
const AT_ONCE: usize = 32;

/// Where to write an object, and the object.
type Write = (String, Value);

/// The children that there are, to be written anew elsewhere.
pub(crate) fn children(api: &Api, services: usize) -> Vec<Write> {
    let mut all = Vec::new();
    for (root, plural, each) in CHILDREN {
        let list = api.get(&format!("/{root}/{plural}")).ok();
        let kind = list["kind"].as_str().unwrap().trim_end_matches("List").to_owned();
        let items = list["items"].as_array().unwrap().iter();
        let ours = items.filter(|item| {
            item["metadata"]["namespace"].as_str().is_some_and(|namespace| namespace.starts_with("scale-"))
                && item["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("llm-"))
        });
        for object in ours.take(services * each) {
            let metadata = &object["metadata"];
            let namespace = metadata["namespace"].as_str().unwrap().replace("scale-", "floor-");
            let mut copy = object.clone();
            copy["apiVersion"] = list["apiVersion"].clone();
            copy["kind"] = json!(kind);
            copy["metadata"] = json!({
                "name": metadata["name"], "namespace": namespace, "labels": metadata["labels"],
                "annotations": metadata["annotations"],
            });
            let fields = copy.as_object_mut().unwrap();
            fields.remove("status");
            if plural == "services" {
                let spec = copy["spec"].as_object_mut().unwrap();
                spec.remove("clusterIP");
                spec.remove("clusterIPs");
            }
            all.push((format!("/{root}/namespaces/{namespace}/{plural}"), copy));
        }
    }
    all
}

/// Writes them all; how long that took.
pub(crate) fn write(cluster: &Turn, children: &[Write]) -> Duration {
    let api = &cluster.server.api;
    for number in 0..NAMESPACES {
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("floor-{number}")}});
        api.post("/api/v1/namespaces", &object).ok();
    }
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((path, object)) = children.get(next.fetch_add(1, Ordering::Relaxed)) {
                    api.post(path, object).ok();
                }
            });
        }
    });
    start.elapsed()
}
