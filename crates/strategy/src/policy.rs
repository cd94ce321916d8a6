//! PodDisruptionBudgets and ResourceQuotas.

use serde_json::{Value, json};

use super::{
    Strategy,
    checks::{percent, selector},
    names::NameRule,
};
use crate::Field;

/// PodDisruptionBudgets.
#[derive(Debug)]
pub(crate) struct Budget;

impl Strategy for Budget {
    fn prepare_create(&self, value: &mut Value) {
        value["status"] =
            json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
    }

    fn validate(&self, object: &Field<'_>, _live: Option<&Value>) {
        let spec = object.at("spec");
        let (least, most) = (spec.at("minAvailable"), spec.at("maxUnavailable"));
        if !least.is_null() && !most.is_null() {
            // The error shows the value in Go's field order.
            let shown = format!(
                "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
                *least, spec["selector"], *most, spec["unhealthyPodEvictionPolicy"]
            );
            spec.invalid_as(shown, "minAvailable and maxUnavailable cannot be both set");
        }
        percent(&least, true);
        percent(&most, true);
        selector(&spec.at("selector"));
        spec.at("unhealthyPodEvictionPolicy").one_of(&["AlwaysAllow", "IfHealthyBudget"]);
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

    fn returns_deleted_object(&self) -> bool {
        true
    }
}
