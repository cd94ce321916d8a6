//! Snapshots of services and their children.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::api::Api;

/// Objects by namespace, kind and name, without the fields that differ between servers.
pub(crate) type Snapshot = BTreeMap<String, Value>;

/// Kinds of services and children: kind, path before the namespace, and plural.
pub(crate) const KINDS: [(&str, &str, &str); 16] = [
    ("LLMInferenceService", "apis/serving.kserve.io/v1alpha2", "llminferenceservices"),
    ("ConfigMap", "api/v1", "configmaps"),
    ("Secret", "api/v1", "secrets"),
    ("ServiceAccount", "api/v1", "serviceaccounts"),
    ("Role", "apis/rbac.authorization.k8s.io/v1", "roles"),
    ("RoleBinding", "apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    ("ClusterRoleBinding", "apis/rbac.authorization.k8s.io/v1", "clusterrolebindings"),
    ("ResourceClaimTemplate", "apis/resource.k8s.io/v1", "resourceclaimtemplates"),
    ("LeaderWorkerSet", "apis/leaderworkerset.x-k8s.io/v1", "leaderworkersets"),
    ("Deployment", "apis/apps/v1", "deployments"),
    ("Service", "api/v1", "services"),
    ("HorizontalPodAutoscaler", "apis/autoscaling/v2", "horizontalpodautoscalers"),
    ("ScaledObject", "apis/keda.sh/v1alpha1", "scaledobjects"),
    ("InferencePool", "apis/inference.networking.k8s.io/v1", "inferencepools"),
    ("InferencePoolX", "apis/inference.networking.x-k8s.io/v1alpha2", "inferencepools"),
    ("HTTPRoute", "apis/gateway.networking.k8s.io/v1", "httproutes"),
];

/// Lists the objects of a kind in all namespaces. Returns none if the server lacks the kind.
pub(crate) fn list(server: &Api, root: &str, plural: &str) -> Vec<Value> {
    let answer = server.get(&format!("/{root}/{plural}"));
    if answer.status == 404 {
        Vec::new()
    } else {
        answer.ok()["items"].as_array().cloned().unwrap_or_default()
    }
}

pub(crate) fn namespace_of(object: &Value) -> &str {
    object["metadata"]["namespace"].as_str().unwrap_or_default()
}

/// Returns the paths of the children in a namespace and of the ClusterRoleBindings for its accounts.
pub(crate) fn children(server: &Api, namespace: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (kind, root, plural) in KINDS.into_iter().filter(|(kind, ..)| *kind != "LLMInferenceService") {
        for object in list(server, root, plural) {
            let name = object["metadata"]["name"].as_str().unwrap();
            if kind == "ClusterRoleBinding" {
                let mut subjects = object["subjects"].as_array().into_iter().flatten();
                let ours = object["metadata"]["labels"]["app.kubernetes.io/part-of"] == "llminferenceservice";
                if ours && subjects.any(|subject| subject["namespace"] == namespace) {
                    found.push(format!("/{root}/{plural}/{name}"));
                }
                continue;
            }
            let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            if namespace_of(&object) == namespace
                && owners.any(|owner| owner["kind"] == "LLMInferenceService")
            {
                found.push(format!("/{root}/namespaces/{namespace}/{plural}/{name}"));
            }
        }
    }
    found
}

/// Returns the services and children of these namespaces.
pub(crate) fn snapshot(server: &Api, namespaces: &BTreeSet<&str>) -> Snapshot {
    let mut found = Snapshot::new();
    for (kind, root, plural) in KINDS {
        for object in list(server, root, plural) {
            let metadata = &object["metadata"];
            let name = metadata["name"].as_str().unwrap().to_owned();
            let namespace = match kind {
                "ClusterRoleBinding" => name.split("-llm").next().unwrap_or_default(),
                _ => namespace_of(&object),
            };
            let ours = match kind {
                "LLMInferenceService" | "ClusterRoleBinding" => true,
                // Only one of the two servers has a garbage collector, so children of deleted services do not count.
                _ => owned_by_living(&found, namespace, metadata),
            };
            if ours && namespaces.contains(namespace) {
                found.insert(format!("{namespace} {kind} {name}"), normal(kind, &object));
            }
        }
    }
    found
}

fn owned_by_living(found: &Snapshot, namespace: &str, metadata: &Value) -> bool {
    metadata["ownerReferences"].as_array().into_iter().flatten().any(|owner| {
        let name = owner["name"].as_str().unwrap_or_default();
        found.contains_key(&format!("{namespace} LLMInferenceService {name}"))
    })
}

fn normal(kind: &str, object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut annotations = metadata["annotations"].clone();
    if annotations["certificates.kserve.io/expiration"].is_string() {
        annotations["certificates.kserve.io/expiration"] = "TIME".into();
    }
    let mut normal = json!({"labels": metadata["labels"], "annotations": annotations});
    match kind {
        "LLMInferenceService" => {
            let mut status = object["status"].clone();
            for condition in status["conditions"].as_array_mut().into_iter().flatten() {
                condition.as_object_mut().unwrap().remove("lastTransitionTime");
            }
            // Only one server has webhooks, which set defaults in `spec`.
            normal = json!({"status": status});
        }
        "Secret" => {
            normal["keys"] = object["data"].as_object().into_iter().flat_map(Map::keys).cloned().collect();
        }
        _ => {
            let known = ["apiVersion", "kind", "metadata", "status"];
            for (field, value) in object.as_object().unwrap() {
                if !known.contains(&field.as_str()) {
                    normal[field] = value.clone();
                }
            }
            if let Some(spec) = normal["spec"].as_object_mut().filter(|_| kind == "Service") {
                spec.remove("clusterIP");
                spec.remove("clusterIPs");
            }
        }
    }
    normal
}

/// Lists the differences of two snapshots, leaf by leaf.
pub(crate) fn differences(left: &Snapshot, right: &Snapshot) -> Vec<String> {
    let mut found = Vec::new();
    for name in left.keys().chain(right.keys()).collect::<BTreeSet<_>>() {
        match (left.get(name), right.get(name)) {
            (Some(left), Some(right)) => leaves(name, left, right, &mut found),
            (Some(_), None) => found.push(format!("{name}: only in the first")),
            _ => found.push(format!("{name}: only in the second")),
        }
    }
    found
}

fn leaves(place: &str, left: &Value, right: &Value, found: &mut Vec<String>) {
    match (left, right) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                let value = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or_default();
                leaves(&format!("{place}.{key}"), &value(a), &value(b), found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                leaves(&format!("{place}[{at}]"), a, b, found);
            }
        }
        _ if left == right => {}
        _ => found.push(format!("{place}: {left} and {right}")),
    }
}
