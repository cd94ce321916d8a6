//! The tree as data: objects with the fields of the API, each with its children. Pure functions.

use longboat_key::Key;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    TreeObjects, lines,
    workloads::{Index, Owner},
};

/// The fields of the metadata that people and scripts need.
const METADATA: [&str; 5] = ["namespace", "name", "uid", "generation", "creationTimestamp"];

/// Returns a `List` of these services. Each has its metadata and status as in the API server, and its
/// workloads as `children`. Each workload has its pods as `children`.
pub(crate) fn list(seen: &TreeObjects, names: &[Key]) -> Value {
    let index = Index::of(seen);
    let found = names.iter().filter_map(|key| lines::find(seen, key));
    let items = found.map(|service| {
        let children = index.workloads(service).into_iter().map(|workload| {
            let pods = workload.pods.iter().map(|pod| object("v1", "Pod", pod, Vec::new())).collect();
            match workload.object {
                Owner::Deployment(found) => object("apps/v1", "Deployment", found, pods),
                Owner::Group(found) => object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", found, pods),
            }
        });
        object("serving.kserve.io/v1alpha2", "LLMInferenceService", service, children.collect())
    });
    json!({"apiVersion": "v1", "kind": "List", "items": items.collect::<Vec<_>>()})
}

fn object(api_version: &str, kind: &str, object: &impl Serialize, children: Vec<Value>) -> Value {
    let json_object = serde_json::to_value(object).unwrap_or_default();
    let known = METADATA.iter().filter_map(|field| {
        let value = &json_object["metadata"][*field];
        (!value.is_null()).then(|| ((*field).to_owned(), value.clone()))
    });
    let mut fields = Map::new();
    fields.insert("apiVersion".into(), api_version.into());
    fields.insert("kind".into(), kind.into());
    fields.insert("metadata".into(), Value::Object(known.collect()));
    if let Some(replicas) = json_object["spec"].get("replicas").filter(|replicas| !replicas.is_null()) {
        fields.insert("spec".into(), json!({"replicas": replicas}));
    }
    if let Some(status) = json_object.get("status").filter(|status| !status.is_null()) {
        fields.insert("status".into(), status.clone());
    }
    if !children.is_empty() {
        fields.insert("children".into(), children.into());
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use longboat_api::labels;
    use longboat_key::{Name, Namespace};

    use super::*;

    #[test]
    fn objects_keep_the_fields_of_the_api_and_stand_below_their_owners() {
        let metadata = json!({
            "name": "llm-kserve", "namespace": "ns", "labels": {labels::PART_OF: "x"},
            "ownerReferences": [{"apiVersion": "x", "kind": "y", "name": "llm", "uid": "u"}],
        });
        let seen = TreeObjects {
            services: vec![Arc::new(
                serde_json::from_value(json!({
                    "metadata": {"name": "llm", "namespace": "ns", "uid": "u", "generation": 2},
                    "spec": {"model": {"uri": "hf://a/b"}, "replicas": 1},
                    "status": {"observedGeneration": 2, "url": "http://gw"},
                }))
                .unwrap(),
            )],
            deployments: vec![Arc::new(
                serde_json::from_value(json!({
                    "metadata": metadata,
                    "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {}},
                    "status": {"readyReplicas": 1},
                }))
                .unwrap(),
            )],
            sets: Vec::new(),
            pods: vec![Arc::new(
                serde_json::from_value(json!({
                    "metadata": {"name": "p", "namespace": "ns", "labels": {"a": "b"}}, "status": {"podIP": "127.64.0.2"},
                }))
                .unwrap(),
            )],
        };
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"},
            "status": {"podIP": "127.64.0.2"},
        });
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "llm-kserve", "namespace": "ns"},
            "spec": {"replicas": 1}, "status": {"readyReplicas": 1}, "children": [pod],
        });
        let service = json!({
            "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
            "metadata": {"name": "llm", "namespace": "ns", "uid": "u", "generation": 2}, "spec": {"replicas": 1},
            "status": {"observedGeneration": 2, "url": "http://gw"}, "children": [deployment],
        });
        let names = [Key::new(Namespace("ns"), Name("llm")), Key::new(Namespace("ns"), Name("nope"))];
        assert_eq!(list(&seen, &names), json!({"apiVersion": "v1", "kind": "List", "items": [service]}));
    }
}
