//! Nodes.

use serde_json::{Value, json};

use super::{Strategy, fill};

/// Nodes.
#[derive(Debug)]
pub(crate) struct Node;

impl Strategy for Node {
    fn default(&self, value: &mut Value) {
        fill(value, "spec", json!({}));
        if value.get("status").is_some() {
            default_status(&mut value["status"]);
        }
    }

    fn prepare_create(&self, value: &mut Value) {
        value["status"] = json!({});
        default_status(&mut value["status"]);
        if !value["spec"]["taints"].is_array() {
            value["spec"]["taints"] =
                json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
        }
    }

    fn prepare_status(&self, value: &mut Value, _live: &Value) {
        default_status(&mut value["status"]);
    }

    fn selectable(&self) -> &'static [&'static str] {
        &["spec.unschedulable"]
    }
}

fn default_status(status: &mut Value) {
    fill(status, "daemonEndpoints", json!({"kubeletEndpoint": {"Port": 0}}));
    fill(status, "nodeInfo", json!({}));
    for key in [
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ] {
        fill(&mut status["nodeInfo"], key, "");
    }
    let capacity = status["capacity"].clone();
    if capacity.is_object() {
        fill(status, "allocatable", capacity);
    }
    for condition in status.pointer_mut("/conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        for time in ["lastHeartbeatTime", "lastTransitionTime"] {
            if condition.get(time).is_none() {
                condition[time] = Value::Null;
            }
        }
    }
}
