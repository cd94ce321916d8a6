//! Built-in kinds that are served in more than one version: one version is stored (the hub), the others are views of it.

mod event;
mod hpa;

use serde_json::Value;

use super::Resource;

/// Whether this resource is the stored version.
pub fn is_hub(resource: &Resource) -> bool {
    !matches!(
        (resource.group.as_str(), resource.version.as_str(), resource.plural.as_str()),
        ("events.k8s.io", "v1", "events") | ("autoscaling", "v1", "horizontalpodautoscalers")
    )
}

/// Converts a stored object to the version of this resource.
pub fn from_hub(resource: &Resource, stored: &Value) -> Value {
    match resource.group.as_str() {
        "events.k8s.io" => event::from_core(stored),
        "autoscaling" if resource.version == "v1" => hpa::from_v2(stored),
        _ => stored.clone(),
    }
}

/// Converts an object of this resource to the stored version.
pub fn to_hub(resource: &Resource, value: Value) -> Value {
    match resource.group.as_str() {
        "events.k8s.io" => event::to_core(&value),
        "autoscaling" if resource.version == "v1" => hpa::to_v2(&value),
        _ => value,
    }
}

/// Copies the fields that exist in `from` to `to` under their other names.
fn rename(from: &Value, to: &mut Value, names: &[(&str, &str)]) {
    for (old, new) in names {
        if let Some(value) = from.get(*old) {
            to[*new] = value.clone();
        }
    }
}
