//! Simulates other controllers: makes Deployments available, and accepts routes and pools.

use std::sync::Arc;

use k8s_openapi::{
    api::{
        apps::v1::{DeploymentCondition, DeploymentStatus},
        autoscaling::v2::{HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerStatus},
    },
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use longboat_api::foreign::{
    httproute::{HTTPRouteStatus, RouteParentStatus},
    inferencepool::{InferencePoolStatus, PoolParentReference, PoolParentStatus},
    inferencepool_x::{InferencePoolStatus as OldPoolStatus, ParentGatewayReference, PoolStatus},
    leaderworkerset::LeaderWorkerSetStatus,
    reference::ParentReference,
    scaledobject::{ScaledObjectCondition, ScaledObjectStatus},
};
use longboat_key::Namespace;
use serde_json::Value;

use super::cluster_model::ClusterModel;

/// Makes everything in a namespace ready, except as `how` specifies.
pub(super) fn ready(world: &mut ClusterModel, namespace: &str, how: &Value) {
    let only = how["only"].as_array();
    let wanted = |kind: &str| only.is_none_or(|kinds| kinds.iter().any(|present| present == kind));
    if wanted("Deployment") {
        deployments(world, namespace, &how["deploy"]);
    }
    if wanted("HorizontalPodAutoscaler") {
        autoscalers(world, namespace, &how["hpa"]);
    }
    if wanted("ScaledObject") {
        scaled_objects(world, namespace, &how["so"]);
    }
    if wanted("LeaderWorkerSet") {
        groups(world, namespace, &how["lws"]);
    }
    if wanted("HTTPRoute") {
        routes(world, namespace, &how["route"]);
    }
    if wanted("InferencePool") {
        pools(world, namespace, how);
    }
}

/// Status, reason and message of a condition: as `how` specifies, or those of a ready object.
fn words(how: &Value, type_: &str, reason: &str) -> [String; 3] {
    let given = |position: usize| how[type_][position].as_str().unwrap_or_default().to_owned();
    if how[type_].is_array() {
        [given(0), given(1), given(2)]
    } else {
        ["True".into(), reason.into(), String::new()]
    }
}

fn deployments(world: &mut ClusterModel, namespace: &str, how: &Value) {
    let all: Vec<_> = world.snapshot.deployments.in_namespace(Namespace(namespace)).cloned().collect();
    for mut deployment in all {
        let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let available =
            how["availableReplicas"].as_i64().map_or(wanted, |count| i32::try_from(count).unwrap());
        let condition = |type_: &str, reason: &str| {
            let [status, reason, message] = words(how, type_, reason);
            DeploymentCondition {
                type_: type_.into(),
                status,
                reason: Some(reason),
                message: Some(message),
                ..DeploymentCondition::default()
            }
        };
        deployment.status = Some(DeploymentStatus {
            available_replicas: Some(available),
            conditions: Some(vec![
                condition("Progressing", "NewReplicaSetAvailable"),
                condition("Available", "MinimumReplicasAvailable"),
            ]),
            ..DeploymentStatus::default()
        });
        world.snapshot.deployments.insert(Arc::new(deployment));
    }
}

fn autoscalers(world: &mut ClusterModel, namespace: &str, how: &Value) {
    let all: Vec<_> =
        world.snapshot.horizontal_pod_autoscalers.in_namespace(Namespace(namespace)).cloned().collect();
    for mut object in all {
        let conditions = [("AbleToScale", "ReadyForNewScale"), ("ScalingActive", "ValidMetricFound")];
        let conditions = conditions.map(|(type_, reason)| {
            let [status, reason, message] = words(how, type_, reason);
            HorizontalPodAutoscalerCondition {
                type_: type_.into(),
                status,
                reason: Some(reason),
                message: Some(message),
                last_transition_time: None,
            }
        });
        object.status = Some(HorizontalPodAutoscalerStatus {
            conditions: Some(conditions.into()),
            ..HorizontalPodAutoscalerStatus::default()
        });
        world.snapshot.horizontal_pod_autoscalers.insert(Arc::new(object));
    }
}

fn scaled_objects(world: &mut ClusterModel, namespace: &str, how: &Value) {
    let all: Vec<_> = world.snapshot.scaled_objects.in_namespace(Namespace(namespace)).cloned().collect();
    for mut object in all {
        let conditions = ["Ready", "Active", "Fallback", "Paused"].map(|type_| {
            let [mut status, reason, message] = words(how, type_, type_);
            if type_ != "Ready" && !how[type_].is_array() {
                status = "False".into();
            }
            ScaledObjectCondition { type_: type_.into(), status, reason, message }
        });
        object.status = Some(ScaledObjectStatus { conditions: conditions.into() });
        world.snapshot.scaled_objects.insert(Arc::new(object));
    }
}

fn groups(world: &mut ClusterModel, namespace: &str, how: &Value) {
    let now = Time(world.snapshot.now);
    let all: Vec<_> = world.snapshot.leader_worker_sets.in_namespace(Namespace(namespace)).cloned().collect();
    for mut set in all {
        let wanted = set.spec.replicas.unwrap_or(1);
        let ready = how["readyReplicas"].as_i64().map_or(wanted, |count| i32::try_from(count).unwrap());
        let mut available = condition(how, "Available", None, now.clone());
        if !how["Available"].is_array() {
            "AllGroupsReady".clone_into(&mut available.reason);
        }
        set.status = Some(LeaderWorkerSetStatus {
            conditions: vec![available],
            replicas: Some(wanted),
            ready_replicas: Some(ready),
            ..LeaderWorkerSetStatus::default()
        });
        world.snapshot.leader_worker_sets.insert(Arc::new(set));
    }
}

fn condition(how: &Value, type_: &str, generation: Option<i64>, now: Time) -> Condition {
    let [status, reason, message] = words(how, type_, type_);
    Condition {
        type_: type_.into(),
        status,
        reason,
        message,
        observed_generation: generation,
        last_transition_time: now,
    }
}

fn routes(world: &mut ClusterModel, namespace: &str, how: &Value) {
    let now = Time(world.snapshot.now);
    let all: Vec<_> = world.snapshot.http_routes.in_namespace(Namespace(namespace)).cloned().collect();
    for mut route in all {
        let seen = how["observedGeneration"].as_i64().or(route.metadata.generation);
        let types = ["Accepted", "ResolvedRefs"].into_iter().filter(|type_| {
            how["only"].as_array().is_none_or(|only| only.iter().any(|present| present == type_))
        });
        let conditions: Vec<_> = types.map(|type_| condition(how, type_, seen, now.clone())).collect();
        let parents = route.spec.parent_refs.iter().map(|parent| RouteParentStatus {
            parent_ref: parent.clone(),
            controller_name: "golden/controller".into(),
            conditions: conditions.clone(),
        });
        route.status = Some(HTTPRouteStatus { parents: parents.collect() });
        world.snapshot.http_routes.insert(Arc::new(route));
    }
}

fn pools(world: &mut ClusterModel, namespace: &str, how: &Value) {
    let now = Time(world.snapshot.now);
    let mut gateways: Vec<ParentReference> = world
        .snapshot
        .http_routes
        .in_namespace(Namespace(namespace))
        .flat_map(|route| route.spec.parent_refs.clone())
        .collect();
    gateways.dedup_by(|a, b| a.name == b.name && a.namespace == b.namespace);
    let of = |parent: &ParentReference| parent.namespace.clone().unwrap_or_else(|| namespace.to_owned());
    let kinds: Vec<&str> = how["pools"]
        .as_array()
        .map_or(vec!["InferencePool"], |kinds| kinds.iter().filter_map(Value::as_str).collect());
    if kinds.contains(&"InferencePool") {
        let all: Vec<_> =
            world.snapshot.inference_pools.in_namespace(Namespace(namespace)).cloned().collect();
        for mut pool in all {
            let accepted = condition(&how["pool"], "Accepted", pool.metadata.generation, now.clone());
            let parents = gateways.iter().map(|parent| PoolParentStatus {
                conditions: vec![accepted.clone()],
                parent_ref: PoolParentReference {
                    group: Some("gateway.networking.k8s.io".into()),
                    kind: "Gateway".into(),
                    name: parent.name.clone(),
                    namespace: of(parent),
                },
                controller_name: "golden/controller".into(),
            });
            pool.status = Some(InferencePoolStatus { parents: parents.collect() });
            world.snapshot.inference_pools.insert(Arc::new(pool));
        }
    }
    if kinds.contains(&"InferencePoolX") {
        let all: Vec<_> =
            world.snapshot.inference_pools_x.in_namespace(Namespace(namespace)).cloned().collect();
        for mut pool in all {
            let accepted = condition(&how["pool"], "Accepted", pool.metadata.generation, now.clone());
            let parent = gateways.iter().map(|parent| PoolStatus {
                parent_ref: ParentGatewayReference {
                    group: None,
                    kind: None,
                    name: parent.name.clone(),
                    namespace: Some(of(parent)),
                },
                conditions: vec![accepted.clone()],
            });
            pool.status = Some(OldPoolStatus { parent: parent.collect() });
            world.snapshot.inference_pools_x.insert(Arc::new(pool));
        }
    }
}
