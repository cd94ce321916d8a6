//! The kinds of dynamic resource allocation.

use std::sync::LazyLock;

use longboat_schema::{StructuralSchema, Variable, check_condition};
use serde_json::Value;

use super::Strategy;
use crate::Field;

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
    fn validate(&self, object: &Field<'_>, live: Option<&Value>) {
        // a stored object was compiled before, and the specs of claims and their templates do not change
        if live.is_some_and(|live| live["spec"] == object["spec"]) {
            return;
        }
        match self {
            Self::Class => selectors(&object.at("spec")),
            Self::Claim => requests(&object.at("spec")),
            Self::ClaimTemplate => requests(&object.at("spec.spec")),
        }
    }
}

/// Validates the selectors of a claim.
fn requests(spec: &Field<'_>) {
    for request in spec.items("devices.requests") {
        selectors(&request.at("exactly"));
        request.items("firstAvailable").for_each(|alternative| selectors(&alternative));
    }
}

/// Validates selectors.
fn selectors(owner: &Field<'_>) {
    let variable = Variable { name: "device", type_name: "kubernetes.DRADevice", schema: &DEVICE };
    for selector in owner.items("selectors") {
        let source = selector.text_at("cel.expression");
        if !selector["cel"].is_object() {
            selector.at("cel").required("");
        } else if source.as_text().len() > MAX_SELECTOR_BYTES {
            source.too_long(MAX_SELECTOR_BYTES);
        } else if let Err(why) = check_condition(source.as_text(), &variable) {
            source.invalid(why);
        }
    }
}
