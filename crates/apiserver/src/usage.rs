//! `metrics.k8s.io`: the current resource usage of pods and of the node, which `kubectl top` reads. The group is only served
//! if a node runs pods.
//!
//! Kubernetes: metrics-server. Nothing is stored: each request takes a measurement.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use crate::{
    answer::Answer,
    clock,
    pod_access::{PodUsage, Resources},
    rbac::{self, AccessRequest},
    request::Request,
    respond,
    selector::label::LabelSelector,
    state::State,
    status::{ApiError, StatusDetails},
    store::Key,
};

const GROUP: &str = "metrics.k8s.io";
const VERSION: &str = "v1beta1";

/// Returns the group as `/apis` and `/apis/metrics.k8s.io` list it.
pub(crate) fn group() -> Value {
    let version = json!({"groupVersion": format!("{GROUP}/{VERSION}"), "version": VERSION});
    json!({"name": GROUP, "versions": [version], "preferredVersion": version})
}

/// Returns the group in the aggregated form of discovery.
pub(crate) fn aggregated() -> Value {
    let resource = |name: &str, kind: &str, scope: &str| {
        json!({
            "resource": name, "responseKind": {"group": "", "version": "", "kind": kind}, "scope": scope,
            "singularResource": "", "verbs": ["get", "list"],
        })
    };
    let resources =
        [resource("nodes", "NodeMetrics", "Cluster"), resource("pods", "PodMetrics", "Namespaced")];
    let version = json!({"version": VERSION, "resources": resources, "freshness": "Current"});
    json!({"metadata": {"name": GROUP}, "versions": [version]})
}

/// Answers a request below `/apis/metrics.k8s.io`.
pub(crate) async fn answer(state: &Arc<State>, request: &Request, rest: &[&str]) -> Result<Answer, ApiError> {
    if !matches!(request.method, Method::GET | Method::HEAD) {
        return Err(ApiError::method_not_allowed());
    }
    let value = match rest {
        [] => {
            let mut group = group();
            group["kind"] = "APIGroup".into();
            group["apiVersion"] = "v1".into();
            group
        }
        [VERSION] => resources(),
        [VERSION, "nodes"] => nodes(state, request, None).await?,
        [VERSION, "nodes", name] => nodes(state, request, Some(name)).await?,
        [VERSION, "pods"] => pods(state, request, None, None).await?,
        [VERSION, "namespaces", namespace, "pods"] => pods(state, request, Some(namespace), None).await?,
        [VERSION, "namespaces", namespace, "pods", name] => {
            pods(state, request, Some(namespace), Some(name)).await?
        }
        _ => return Err(ApiError::no_such_resource()),
    };
    Ok(respond::document(request, 200, &value))
}

fn resources() -> Value {
    let resource = |name: &str, kind: &str, namespaced: bool| json!({"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get", "list"]});
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/{VERSION}"),
        "resources": [resource("nodes", "NodeMetrics", false), resource("pods", "PodMetrics", true)],
    })
}

fn check(
    state: &State,
    request: &Request,
    resource: &str,
    namespace: Option<&str>,
    name: Option<&str>,
) -> Result<(), ApiError> {
    let verb = if name.is_some() { "get" } else { "list" };
    let wish = AccessRequest {
        verb,
        group: GROUP,
        resource,
        namespace,
        name: name.unwrap_or_default(),
        ..AccessRequest::default()
    };
    rbac::check_access(&state.store, &request.user, &wish)
}

async fn nodes(state: &Arc<State>, request: &Request, name: Option<&str>) -> Result<Value, ApiError> {
    check(state, request, "nodes", None, name)?;
    let labels = selector(request)?;
    let access = state.pods.read().clone().ok_or_else(ApiError::no_such_resource)?;
    let usage = access.node_usage().await;
    let mut items = state.store.list("/nodes", None).objects;
    items.retain(|(key, node)| {
        name.is_none_or(|name| key.name == name) && labels.matches(&node.metadata()["labels"])
    });
    let mut items = items.into_iter().map(|(key, node)| {
        let mut item = head("NodeMetrics", &key, &node.metadata()["labels"]);
        item["usage"] = amounts(usage);
        item
    });
    match name {
        Some(name) => items
            .next()
            .ok_or_else(|| ApiError::not_found(StatusDetails { group: GROUP, kind: "nodes", name })),
        None => Ok(list("NodeMetricsList", &items.collect::<Vec<_>>())),
    }
}

async fn pods(
    state: &Arc<State>,
    request: &Request,
    namespace: Option<&str>,
    name: Option<&str>,
) -> Result<Value, ApiError> {
    check(state, request, "pods", namespace, name)?;
    let labels = selector(request)?;
    let access = state.pods.read().clone().ok_or_else(ApiError::no_such_resource)?;
    let mut items = Vec::new();
    for PodUsage { pod, containers } in access.usage().await {
        let wanted = namespace.is_none_or(|namespace| pod.namespace == namespace)
            && name.is_none_or(|name| pod.name == name);
        let key = Key::new(&pod.namespace, &pod.name);
        let Some(stored) = state.store.get("/pods", &key).filter(|_| wanted) else { continue };
        let own = &stored.metadata()["labels"];
        if !labels.matches(own) || containers.is_empty() {
            continue;
        }
        let mut item = head("PodMetrics", &key, own);
        let containers = containers.into_iter();
        item["containers"] =
            containers.map(|(name, usage)| json!({"name": name, "usage": amounts(usage)})).collect();
        items.push(item);
    }
    match name {
        Some(name) => {
            items.pop().ok_or_else(|| ApiError::not_found(StatusDetails { group: GROUP, kind: "pods", name }))
        }
        None => Ok(list("PodMetricsList", &items)),
    }
}

fn selector(request: &Request) -> Result<LabelSelector, ApiError> {
    LabelSelector::parse(request.query.get("labelSelector").unwrap_or_default())
        .map_err(ApiError::bad_request)
}

fn head(kind: &str, key: &Key, labels: &Value) -> Value {
    let mut metadata = json!({"name": key.name, "creationTimestamp": clock::now()});
    if !key.namespace.is_empty() {
        metadata["namespace"] = key.namespace.as_str().into();
    }
    if labels.is_object() {
        metadata["labels"] = labels.clone();
    }
    json!({
        "kind": kind, "apiVersion": format!("{GROUP}/{VERSION}"), "metadata": metadata, "timestamp": clock::now(),
        "window": "500ms",
    })
}

fn amounts(usage: Resources) -> Value {
    json!({"cpu": format!("{}n", usage.cpu_nanocores), "memory": format!("{}Ki", usage.memory_bytes / 1024)})
}

fn list(kind: &str, items: &[Value]) -> Value {
    json!({"kind": kind, "apiVersion": format!("{GROUP}/{VERSION}"), "metadata": {}, "items": items})
}
