//! The kinds of dynamic resource allocation.

use serde_json::{Value, json};

use super::{Strategy, fill};

/// Kinds of `resource.k8s.io`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Devices {
    /// A DeviceClass.
    Class,
    /// A ResourceClaim.
    Claim,
    /// A ResourceClaimTemplate.
    ClaimTemplate,
}

impl Strategy for Devices {
    fn default(&self, value: &mut Value) {
        fill(value, "spec", json!({}));
        match self {
            Self::Class => {}
            Self::Claim => claim(&mut value["spec"]),
            Self::ClaimTemplate => {
                fill(&mut value["spec"], "metadata", json!({}));
                fill(&mut value["spec"], "spec", json!({}));
                claim(&mut value["spec"]["spec"]);
            }
        }
    }
}

fn claim(spec: &mut Value) {
    fill(spec, "devices", json!({}));
    let wanted = spec.pointer_mut("/devices/requests").and_then(Value::as_array_mut);
    for one in wanted.into_iter().flatten() {
        if let Some(exactly) = one.get_mut("exactly").filter(|exactly| exactly.is_object()) {
            request(exactly);
        }
        let alternatives = one.get_mut("firstAvailable").and_then(Value::as_array_mut);
        alternatives.into_iter().flatten().for_each(request);
    }
}

fn request(request: &mut Value) {
    fill(request, "allocationMode", "ExactCount");
    if request["allocationMode"] == "ExactCount" {
        fill(request, "count", 1);
    }
    for toleration in request.get_mut("tolerations").and_then(Value::as_array_mut).into_iter().flatten() {
        fill(toleration, "operator", "Equal");
    }
}
