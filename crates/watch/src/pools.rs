//! InferencePools of either API group. A pool keeps its name and its pods when a cluster moves from one group to the other.

use kube::api::{ApiResource, GroupVersionKind};
use longboat_api::groups;
use longboat_key::Namespace;
use serde_json::Value;

use crate::Selection;

/// Returns the other group of pools.
pub fn other_group(group: &str) -> &'static str {
    if group == groups::POOL { groups::OLD_POOL } else { groups::POOL }
}

/// Returns the kind in a group.
pub fn resource(group: &str) -> ApiResource {
    let version = if group == groups::OLD_POOL { "v1alpha2" } else { "v1" };
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, "InferencePool"))
}

/// Returns what selects one pool.
pub fn selection(group: &str, namespace: &str, name: &str) -> Selection {
    let all = Selection::of_resource(resource(group)).within(Some(Namespace(namespace)));
    all.fields(format!("metadata.name={name}"))
}

/// Returns the label selector of a pool's pods, if it has one. In the older group, it has no `matchLabels`.
pub fn selector(pool: &Value) -> Option<String> {
    let selector = pool.get("spec")?.get("selector")?;
    let labels = selector.get("matchLabels").unwrap_or(selector).as_object()?;
    let labels: Vec<String> =
        labels.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
    (!labels.is_empty()).then(|| labels.join(","))
}

/// Returns the ports of each of a pool's pods.
pub fn ports(pool: &Value) -> Vec<u16> {
    let spec = &pool["spec"];
    let port = |value: &Value| value.as_u64().and_then(|port| u16::try_from(port).ok());
    match spec["targetPorts"].as_array() {
        Some(ports) => ports.iter().filter_map(|entry| port(&entry["number"])).collect(),
        None => port(&spec["targetPortNumber"]).into_iter().collect(),
    }
}
