//! Reports objects as ready, in place of the controllers that would.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    api::Api,
    snapshot::{list, namespace_of},
};

/// Kinds whose status other controllers write.
const REPORTING: [(&str, &str, &str); 8] = [
    ("Gateway", "apis/gateway.networking.k8s.io/v1", "gateways"),
    ("LeaderWorkerSet", "apis/leaderworkerset.x-k8s.io/v1", "leaderworkersets"),
    ("Deployment", "apis/apps/v1", "deployments"),
    ("HorizontalPodAutoscaler", "apis/autoscaling/v2", "horizontalpodautoscalers"),
    ("ScaledObject", "apis/keda.sh/v1alpha1", "scaledobjects"),
    ("InferencePool", "apis/inference.networking.k8s.io/v1", "inferencepools"),
    ("InferencePoolX", "apis/inference.networking.x-k8s.io/v1alpha2", "inferencepools"),
    ("HTTPRoute", "apis/gateway.networking.k8s.io/v1", "httproutes"),
];

fn condition(type_: &str, generation: &Value) -> Value {
    let mut condition = json!({
        "type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    if !generation.is_null() {
        condition["observedGeneration"] = generation.clone();
    }
    condition
}

/// Sets the status of all objects in these namespaces to ready. Returns whether any object changed.
pub(crate) fn make_ready(server: &Api, namespaces: &BTreeSet<&str>) -> bool {
    let routes = list(server, "apis/gateway.networking.k8s.io/v1", "httproutes");
    let mut news = false;
    for (kind, root, plural) in REPORTING {
        for object in
            list(server, root, plural).iter().filter(|object| namespaces.contains(namespace_of(object)))
        {
            let parents = parents(&routes, namespace_of(object));
            news |= patch(server, root, plural, object, &status(kind, object, &parents));
        }
    }
    news
}

/// Returns the Gateways to which routes of a namespace attach, without duplicates.
fn parents(routes: &[Value], namespace: &str) -> Vec<Value> {
    let routes = routes.iter().filter(|route| namespace_of(route) == namespace);
    let parents: BTreeSet<String> = routes
        .flat_map(|route| route["spec"]["parentRefs"].as_array().cloned().unwrap_or_default())
        .map(|parent| {
            let within = parent["namespace"].as_str().unwrap_or(namespace);
            let group = "gateway.networking.k8s.io";
            json!({"group": group, "kind": "Gateway", "name": parent["name"], "namespace": within})
                .to_string()
        })
        .collect();
    parents.iter().map(|parent| serde_json::from_str(parent).unwrap()).collect()
}

fn patch(server: &Api, root: &str, plural: &str, object: &Value, status: &Value) -> bool {
    let (namespace, name) = (namespace_of(object), object["metadata"]["name"].as_str().unwrap());
    let path = format!("/{root}/namespaces/{namespace}/{plural}/{name}/status");
    let answer = server.merge(&path, &json!({"status": status}));
    // The object may have been deleted meanwhile.
    answer.status != 404
        && answer.ok()["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"]
}

fn status(kind: &str, object: &Value, parents: &[Value]) -> Value {
    let generation = &object["metadata"]["generation"];
    let replicas = object["spec"]["replicas"].as_i64().unwrap_or(1);
    let plain = |type_: &str| condition(type_, &Value::Null);
    let both = [condition("Accepted", generation), condition("ResolvedRefs", generation)];
    let of = |parent: &Value| json!({"parentRef": parent, "controllerName": "longboat.dev/test", "conditions": both});
    match kind {
        "Deployment" => json!({
            "observedGeneration": generation, "replicas": replicas, "readyReplicas": replicas,
            "availableReplicas": replicas, "updatedReplicas": replicas,
            "conditions": [plain("Available"), plain("Progressing")],
        }),
        "LeaderWorkerSet" => {
            json!({"replicas": replicas, "readyReplicas": replicas, "conditions": [condition("Available", generation)]})
        }
        "HorizontalPodAutoscaler" => json!({
            "currentReplicas": 1, "desiredReplicas": 1, "conditions": [plain("AbleToScale"), plain("ScalingActive")],
        }),
        "ScaledObject" => json!({"conditions": [
            {"type": "Ready", "status": "True", "reason": "Ready", "message": ""},
            {"type": "Active", "status": "True", "reason": "Active", "message": ""},
        ]}),
        "InferencePoolX" => {
            let accepted = [condition("Accepted", generation)];
            json!({"parent": parents.iter().map(|parent| json!({"parentRef": parent, "conditions": accepted})).collect::<Vec<_>>()})
        }
        "InferencePool" => json!({"parents": parents.iter().map(of).collect::<Vec<_>>()}),
        "HTTPRoute" => {
            let parents = object["spec"]["parentRefs"].as_array().into_iter().flatten();
            json!({"parents": parents.map(of).collect::<Vec<_>>()})
        }
        _ => json!({
            "addresses": [{"type": "IPAddress", "value": "10.1.2.3"}],
            "conditions": [condition("Accepted", generation), condition("Programmed", generation)],
        }),
    }
}
