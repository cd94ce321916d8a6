//! The kinds of dynamic resource allocation.

use std::sync::LazyLock;

use longboat_schema::{StructuralSchema, Variable, check_condition};
use serde_json::Value;

use super::{
    Strategy,
    checks::{items, text},
};
use crate::Cause;

/// The longest expression of a selector, in bytes.
const MAX_SELECTOR_BYTES: usize = 10 * 1024;

/// The schema of the variable `device` in selectors.
static DEVICE: LazyLock<StructuralSchema> = LazyLock::new(|| {
    StructuralSchema::parse(
        r#"{"type": "object", "properties": {
            "driver": {"type": "string"},
            "attributes": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties":
                {"x-kubernetes-preserve-unknown-fields": true}}},
            "capacity": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties":
                {"x-kubernetes-preserve-unknown-fields": true}}}}}"#,
    )
});

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
    fn validate(&self, value: &Value, live: Option<&Value>) -> Vec<Cause> {
        // a stored object was compiled before, and the specs of claims and their templates do not change
        if live.is_some_and(|live| live["spec"] == value["spec"]) {
            return Vec::new();
        }
        let mut causes = Vec::new();
        match self {
            Self::Class => selectors(&value["spec"], "spec", &mut causes),
            Self::Claim => requests(&value["spec"], "spec", &mut causes),
            Self::ClaimTemplate => requests(&value["spec"]["spec"], "spec.spec", &mut causes),
        }
        causes
    }
}

/// Validates the selectors of a claim.
fn requests(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (index, request) in items(&spec["devices"], "requests").iter().enumerate() {
        let path = format!("{path}.devices.requests[{index}]");
        selectors(&request["exactly"], &format!("{path}.exactly"), causes);
        for (index, alternative) in items(request, "firstAvailable").iter().enumerate() {
            selectors(alternative, &format!("{path}.firstAvailable[{index}]"), causes);
        }
    }
}

/// Validates selectors.
fn selectors(owner: &Value, path: &str, causes: &mut Vec<Cause>) {
    let variable = Variable { name: "device", type_name: "kubernetes.DRADevice", schema: &DEVICE };
    for (index, selector) in items(owner, "selectors").iter().enumerate() {
        let path = format!("{path}.selectors[{index}].cel");
        if !selector["cel"].is_object() {
            causes.push(Cause::required(path, ""));
            continue;
        }
        let path = format!("{path}.expression");
        let source = text(&selector["cel"], "expression");
        if source.len() > MAX_SELECTOR_BYTES {
            causes.push(Cause::too_long(path, MAX_SELECTOR_BYTES));
        } else if let Err(why) = check_condition(source, &variable) {
            causes.push(Cause::invalid(path, &Value::from(source), why));
        }
    }
}
