//! The requirements of node selectors.

use k8s_openapi::api::core::v1::NodeSelectorRequirement;

/// Whether a label or field with this value meets the requirement.
pub(super) fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_listed = value.is_some_and(|value| values.iter().any(|listed| listed == value));
    let numbers = || Some((value?.parse::<i64>().ok()?, values.first()?.parse::<i64>().ok()?));
    match requirement.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, bound)| value > bound),
        "Lt" => numbers().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}
