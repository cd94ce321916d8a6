//! Nodes.

use serde_json::{Value, json};

use super::{Strategy, defaults::fill_in};

/// Nodes.
#[derive(Debug)]
pub(crate) struct Node;

impl Strategy for Node {
    fn prepare_create(&self, value: &mut Value) {
        value["status"] = json!({});
        fill_in("core.v1.NodeStatus", &mut value["status"]);
        if !value["spec"]["taints"].is_array() {
            value["spec"]["taints"] =
                json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
        }
    }

    fn prepare_status(&self, value: &mut Value, _live: &Value) {
        fill_in("core.v1.NodeStatus", &mut value["status"]);
    }

    fn selectable(&self) -> &'static [&'static str] {
        &["spec.unschedulable"]
    }
}
