//! Simulates other controllers in the same way as when the recordings were made.

use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use longboat_testkit::TestCluster;
use serde_json::{Value, json};

use super::run::api;

const TIME: &str = "2026-11-20T00:00:00Z";

const KINDS: [(&str, &str); 7] = [
    ("apps/v1", "Deployment"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("keda.sh/v1alpha1", "ScaledObject"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
    ("gateway.networking.k8s.io/v1", "HTTPRoute"),
    ("inference.networking.k8s.io/v1", "InferencePool"),
    ("inference.networking.x-k8s.io/v1alpha2", "InferencePool"),
];

/// Makes everything in a namespace ready, except as `how` specifies.
pub(super) async fn make(world: &TestCluster, namespace: &str, how: &Value) {
    let only = how["only"].as_array();
    let parents = parents(world, namespace).await;
    for (version, kind) in KINDS {
        if only.is_some_and(|kinds| kinds.iter().all(|wanted| wanted != kind)) {
            continue;
        }
        let api = api(world, version, kind, namespace);
        let Ok(all) = api.list(&ListParams::default()).await else { continue };
        for object in all {
            let name = object.name_any();
            let object = serde_json::to_value(object).unwrap();
            if let Some(status) = status(version, kind, &object, &parents, how) {
                let patch = Patch::Merge(json!({"status": status}));
                api.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
            }
        }
    }
}

/// The Gateways to which the routes of a namespace attach, without repetitions.
async fn parents(world: &TestCluster, namespace: &str) -> Vec<Value> {
    let routes = api(world, "gateway.networking.k8s.io/v1", "HTTPRoute", namespace);
    let Ok(routes) = routes.list(&ListParams::default()).await else { return Vec::new() };
    let mut parents: Vec<Value> = routes
        .into_iter()
        .flat_map(|route| route.data["spec"]["parentRefs"].as_array().cloned().unwrap_or_default())
        .map(|parent| {
            let within = parent["namespace"].as_str().unwrap_or(namespace);
            json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": parent["name"], "namespace": within})
        })
        .collect();
    parents.dedup();
    parents
}

fn status(version: &str, kind: &str, object: &Value, parents: &[Value], how: &Value) -> Option<Value> {
    let generation = &object["metadata"]["generation"];
    let wanted = object["spec"]["replicas"].as_i64().unwrap_or(1);
    Some(match kind {
        "Deployment" => json!({
            "replicas": wanted, "readyReplicas": wanted, "updatedReplicas": wanted,
            "availableReplicas": how["deploy"]["availableReplicas"].as_i64().unwrap_or(wanted),
            "conditions": [
                condition(&how["deploy"], "Progressing", "NewReplicaSetAvailable"),
                condition(&how["deploy"], "Available", "MinimumReplicasAvailable"),
            ],
        }),
        "HorizontalPodAutoscaler" => json!({"desiredReplicas": wanted, "conditions": [
            condition(&how["hpa"], "AbleToScale", "ReadyForNewScale"),
            condition(&how["hpa"], "ScalingActive", "ValidMetricFound"),
        ]}),
        "ScaledObject" => {
            let conditions = ["Ready", "Active", "Fallback", "Paused"].map(|type_| {
                let mut condition = condition(&how["so"], type_, type_);
                condition.as_object_mut().unwrap().remove("lastTransitionTime");
                if type_ != "Ready" && !how["so"][type_].is_array() {
                    condition["status"] = "False".into();
                }
                condition
            });
            json!({"conditions": conditions})
        }
        "LeaderWorkerSet" => json!({
            "replicas": wanted, "readyReplicas": how["lws"]["readyReplicas"].as_i64().unwrap_or(wanted),
            "conditions": [condition(&how["lws"], "Available", "AllGroupsReady")],
        }),
        "HTTPRoute" => {
            let seen =
                how["route"]["observedGeneration"].as_i64().map_or_else(|| generation.clone(), Value::from);
            let types = ["Accepted", "ResolvedRefs"].into_iter().filter(|type_| {
                how["route"]["only"].as_array().is_none_or(|only| only.iter().any(|wanted| wanted == type_))
            });
            let conditions: Vec<Value> =
                types.map(|type_| observed(condition(&how["route"], type_, type_), &seen)).collect();
            let parents = object["spec"]["parentRefs"].as_array().into_iter().flatten().map(|parent| {
                json!({"parentRef": parent, "controllerName": "golden/controller", "conditions": conditions})
            });
            json!({"parents": parents.collect::<Vec<_>>()})
        }
        _ => {
            let older = version.contains("x-k8s");
            let name = if older { "InferencePoolX" } else { "InferencePool" };
            let named = how["pools"].as_array().map_or(!older, |pools| pools.iter().any(|pool| pool == name));
            if !named {
                return None;
            }
            let accepted = observed(condition(&how["pool"], "Accepted", "Accepted"), generation);
            let of = |parent: &Value| json!({"parentRef": parent, "controllerName": "golden/controller", "conditions": [accepted]});
            let parents: Vec<Value> = parents.iter().map(of).collect();
            if older { json!({"parent": parents}) } else { json!({"parents": parents}) }
        }
    })
}

/// A condition as given in `how`, or that of a ready object.
fn condition(how: &Value, type_: &str, reason: &str) -> Value {
    let given = how[type_].as_array();
    let words = |position: usize, good: &str| {
        given.map_or(good.to_owned(), |words| words[position].as_str().unwrap_or_default().to_owned())
    };
    json!({
        "type": type_, "status": words(0, "True"), "reason": words(1, reason), "message": words(2, ""),
        "lastTransitionTime": TIME,
    })
}

fn observed(mut condition: Value, generation: &Value) -> Value {
    condition["observedGeneration"] = generation.clone();
    condition
}
