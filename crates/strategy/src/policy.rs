//! Kinds that limit other objects: disruption budgets, priority classes, quotas and limit ranges.

use serde_json::{Value, json};

use super::{
    Strategy,
    checks::{items, one_of, percent, selector, text},
    differs,
    names::NameRule,
    quantity::Quantity,
};
use crate::Cause;

const MAX_USER_PRIORITY: i64 = 1_000_000_000;

/// PodDisruptionBudgets.
#[derive(Debug)]
pub(crate) struct Budget;

impl Strategy for Budget {
    fn prepare_create(&self, value: &mut Value) {
        value["status"] =
            json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
    }

    fn validate(&self, value: &Value, _live: Option<&Value>) -> Vec<Cause> {
        validate_budget(value)
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }
}

/// PriorityClasses.
#[derive(Debug)]
pub(crate) struct PriorityClass;

impl Strategy for PriorityClass {
    fn validate(&self, value: &Value, live: Option<&Value>) -> Vec<Cause> {
        validate_priority(value, live)
    }

    fn is_new_generation(&self, value: &Value, live: &Value) -> bool {
        differs(value, live, true)
    }
}

/// ResourceQuotas.
#[derive(Debug)]
pub(crate) struct ResourceQuota;

impl Strategy for ResourceQuota {
    fn prepare_create(&self, value: &mut Value) {
        value["status"] = json!({});
    }

    fn validate(&self, value: &Value, _live: Option<&Value>) -> Vec<Cause> {
        validate_quota(value)
    }

    fn shows_deleted(&self) -> bool {
        true
    }
}

/// LimitRanges.
#[derive(Debug)]
pub(crate) struct LimitRange;

impl Strategy for LimitRange {
    fn validate(&self, value: &Value, _live: Option<&Value>) -> Vec<Cause> {
        validate_range(value)
    }
}

/// Returns all validation errors of a disruption budget.
fn validate_budget(value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = &value["spec"];
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        // The error shows the value in Go's field order.
        let shown = format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
            spec["minAvailable"],
            spec["selector"],
            spec["maxUnavailable"],
            spec["unhealthyPodEvictionPolicy"]
        );
        causes.push(Cause {
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {shown}: minAvailable and maxUnavailable cannot be both set"),
            field: "spec".to_owned(),
        });
    }
    for key in ["minAvailable", "maxUnavailable"] {
        percent(&spec[key], &format!("spec.{key}"), true, &mut causes);
    }
    selector(&spec["selector"], "spec.selector", &mut causes);
    one_of(
        &spec["unhealthyPodEvictionPolicy"],
        "spec.unhealthyPodEvictionPolicy",
        &["AlwaysAllow", "IfHealthyBudget"],
        &mut causes,
    );
    causes
}

/// Returns all validation errors of a priority class.
fn validate_priority(value: &Value, live: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = text(&value["metadata"], "name");
    if name.starts_with("system-") && !matches!(name, "system-node-critical" | "system-cluster-critical") {
        causes.push(Cause::forbidden(
            "metadata.name",
            format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a \
                 known system priority class"
            ),
        ));
    } else if value["value"].as_i64().unwrap_or(0) > MAX_USER_PRIORITY && !name.starts_with("system-") {
        causes.push(Cause::forbidden(
            "value",
            format!("maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}"),
        ));
    }
    one_of(&value["preemptionPolicy"], "preemptionPolicy", &["PreemptLowerPriority", "Never"], &mut causes);
    if let Some(live) = live {
        if value["value"] != live["value"] {
            causes.push(Cause::forbidden("value", "may not be changed in an update."));
        }
        if value["preemptionPolicy"] != live["preemptionPolicy"] {
            causes.push(Cause::invalid("preemptionPolicy", &value["preemptionPolicy"], "field is immutable"));
        }
    }
    causes
}

/// Returns all validation errors of a quota.
fn validate_quota(value: &Value) -> Vec<Cause> {
    const COUNTED: [&str; 10] = [
        "pods",
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
        "limits.storage",
    ];
    const MEASURED: [&str; 10] = [
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.storage",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
    ];
    const SCOPES: [&str; 7] = [
        "Terminating",
        "NotTerminating",
        "BestEffort",
        "NotBestEffort",
        "PriorityClass",
        "CrossNamespacePodAffinity",
        "VolumeAttributesClass",
    ];
    let mut causes = Vec::new();
    for (resource, amount) in value["spec"]["hard"].as_object().into_iter().flatten() {
        let path = format!("spec.hard[{resource}]");
        let counted = COUNTED.contains(&resource.as_str());
        if !counted && !MEASURED.contains(&resource.as_str()) && !resource.contains('/') {
            let shown = Value::from(resource.as_str());
            causes.push(Cause::invalid(path.as_str(), &shown, "must be a standard resource for quota"));
            let detail = "must be a standard resource type or fully qualified";
            causes.push(Cause::invalid(path.as_str(), &shown, detail));
        }
        let Some(quantity) = amount.as_str().and_then(Quantity::parse) else { continue };
        if quantity.milli() < 0 {
            causes.push(Cause::invalid(path.as_str(), amount, "must be greater than or equal to 0"));
        }
        if counted && quantity.milli() % 1000 != 0 {
            causes.push(Cause::invalid(path, &Value::from(quantity.to_string()), "must be an integer"));
        }
    }
    let scopes = &value["spec"]["scopes"];
    let has = |scope: &str| items(&value["spec"], "scopes").iter().any(|given| given == scope);
    if items(&value["spec"], "scopes")
        .iter()
        .any(|scope| !scope.as_str().is_some_and(|scope| SCOPES.contains(&scope)))
    {
        causes.push(Cause::invalid("spec.scopes", scopes, "unsupported scope"));
    }
    if has("BestEffort") && has("NotBestEffort") || has("Terminating") && has("NotTerminating") {
        causes.push(Cause::invalid("spec.scopes", scopes, "conflicting scopes"));
    }
    causes
}

/// Validates a limit range.
fn validate_range(value: &Value) -> Vec<Cause> {
    const TYPES: [&str; 3] = ["Pod", "Container", "PersistentVolumeClaim"];
    let mut causes = Vec::new();
    for (index, limit) in items(&value["spec"], "limits").iter().enumerate() {
        let path = format!("spec.limits[{index}]");
        let kind = text(limit, "type");
        if !TYPES.contains(&kind) && !kind.contains('/') {
            causes.push(Cause::invalid(
                format!("{path}.type"),
                &limit["type"],
                "must be a standard limit type or fully qualified",
            ));
        }
        let amount = |key: &str, resource: &str| {
            let text = limit[key][resource].as_str()?;
            Some((text.to_owned(), Quantity::parse(text)?.milli()))
        };
        let names = ["min", "max", "default", "defaultRequest"]
            .into_iter()
            .filter_map(|key| limit[key].as_object())
            .flat_map(|map| map.keys().cloned())
            .collect::<std::collections::BTreeSet<_>>();
        for name in names {
            let (least, most) = (amount("min", &name), amount("max", &name));
            let (default, request) = (amount("default", &name), amount("defaultRequest", &name));
            let mut order =
                |key: &str, low: &Option<(String, i128)>, high: &Option<(String, i128)>, words: [&str; 2]| {
                    if let (Some((low_text, low)), Some((high_text, high))) = (low, high)
                        && low > high
                    {
                        let shown = if key == "min" || key == "max" || words[0].starts_with("default") {
                            low_text
                        } else {
                            high_text
                        };
                        causes.push(Cause::invalid(
                            format!("{path}.{key}[{name}]"),
                            &Value::from(shown.as_str()),
                            format!(
                                "{} value {low_text} is greater than {} value {high_text}",
                                words[0], words[1]
                            ),
                        ));
                    }
                };
            order("min", &least, &most, ["min", "max"]);
            order("defaultRequest", &least, &request, ["min", "default request"]);
            order("defaultRequest", &request, &most, ["default request", "max"]);
            order("defaultRequest", &request, &default, ["default request", "default limit"]);
            order("default", &least, &default, ["min", "default"]);
            order("default", &default, &most, ["default", "max"]);
        }
    }
    causes
}
