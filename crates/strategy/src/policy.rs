//! PodDisruptionBudgets and ResourceQuotas.

use serde_json::{Value, json};

use super::{
    Strategy,
    checks::{one_of, percent, selector},
    names::NameRule,
};
use crate::Cause;

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

/// ResourceQuotas, which nothing here enforces.
#[derive(Debug)]
pub(crate) struct ResourceQuota;

impl Strategy for ResourceQuota {
    fn prepare_create(&self, value: &mut Value) {
        value["status"] = json!({});
    }

    fn shows_deleted(&self) -> bool {
        true
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
        let detail = "minAvailable and maxUnavailable cannot be both set";
        causes.push(Cause::invalid_as("spec", shown, detail));
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
