//! Validation of the constraints that spread pods over nodes.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::{
    Cause,
    checks::{items, one_of, qualified, selector, text},
};

/// Validates all constraints of a pod's spec.
pub(super) fn validate(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let (constraints, path) =
        (items(spec, "topologySpreadConstraints"), format!("{path}.topologySpreadConstraints"));
    let mut firsts = HashMap::new();
    for (index, constraint) in constraints.iter().enumerate() {
        let own = format!("{path}[{index}]");
        let skew = constraint["maxSkew"].as_i64().unwrap_or(0);
        if skew <= 0 {
            causes.push(Cause::invalid(format!("{own}.maxSkew"), &json!(skew), "must be greater than zero"));
        }
        let (key, action) = (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
        if key.is_empty() {
            causes.push(Cause::required(format!("{own}.topologyKey"), "can not be empty"));
        }
        let known = ["DoNotSchedule", "ScheduleAnyway"];
        one_of(&Value::from(action), &format!("{own}.whenUnsatisfiable"), &known, causes);
        domains(&constraint["minDomains"], action, &format!("{own}.minDomains"), causes);
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            one_of(&constraint[policy], &format!("{own}.{policy}"), &["Honor", "Ignore"], causes);
        }
        let first = *firsts.entry((key, action)).or_insert(index);
        if first != index {
            // The error names the first of the two constraints.
            causes.push(Cause::duplicate(
                format!("{path}[{first}].{{topologyKey, whenUnsatisfiable}}"),
                &Value::from(format!("{{{key}, {action}}}")),
            ));
        }
        selector(&constraint["labelSelector"], &format!("{own}.labelSelector"), causes);
        label_keys(constraint, "matchLabelKeys", &own, causes);
    }
}

fn domains(least: &Value, action: &str, path: &str, causes: &mut Vec<Cause>) {
    let Some(number) = least.as_i64() else { return };
    if number <= 0 {
        causes.push(Cause::invalid(path, least, "must be greater than zero"));
    }
    if action != "DoNotSchedule" {
        let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        causes.push(Cause::invalid(path, least, detail));
    }
}

/// Validates the keys of labels whose values are taken from the pod, beside a selector.
pub(super) fn label_keys(term: &Value, field: &str, path: &str, causes: &mut Vec<Cause>) {
    let (keys, own) = (items(term, field), format!("{path}.{field}"));
    if !keys.is_empty() && !term["labelSelector"].is_object() {
        causes.push(Cause::forbidden(own, "must not be specified when labelSelector is not set"));
        return;
    }
    for (index, key) in keys.iter().enumerate() {
        qualified(key.as_str().unwrap_or_default(), &format!("{own}[{index}]"), causes);
    }
}
