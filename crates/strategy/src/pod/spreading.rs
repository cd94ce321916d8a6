//! Validation of the constraints that spread pods over nodes.

use std::collections::HashMap;

use crate::{
    Field,
    checks::{qualified, selector},
};

/// Validates all constraints of a pod's spec.
pub(super) fn validate(spec: &Field<'_>) {
    let mut firsts = HashMap::new();
    for (index, constraint) in spec.items("topologySpreadConstraints").enumerate() {
        let skew = constraint["maxSkew"].as_i64().unwrap_or(0);
        if skew <= 0 {
            constraint.at("maxSkew").invalid_as(skew, "must be greater than zero");
        }
        constraint.at("topologyKey").not_empty("can not be empty");
        let (key, action) = (constraint.text("topologyKey"), constraint.text_at("whenUnsatisfiable"));
        action.one_of(&["DoNotSchedule", "ScheduleAnyway"]);
        spreading_domains(&constraint.at("minDomains"), action.as_text());
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            constraint.at(policy).one_of(&["Honor", "Ignore"]);
        }
        let first = *firsts.entry((key, action.as_text())).or_insert(index);
        if first != index {
            // The error names the first of the two constraints.
            let path = format!(
                "{}.topologySpreadConstraints[{first}].{{topologyKey, whenUnsatisfiable}}",
                spec.path
            );
            let shown = format!("{{{key}, {}}}", action.as_text()).into();
            constraint.with(&shown).named(path).duplicate();
        }
        selector(&constraint.at("labelSelector"));
        label_keys(&constraint, "matchLabelKeys");
    }
}

fn spreading_domains(least: &Field<'_>, action: &str) {
    let Some(number) = least.as_i64() else { return };
    if number <= 0 {
        least.invalid("must be greater than zero");
    }
    if action != "DoNotSchedule" {
        least.invalid(format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"));
    }
}

/// Validates the keys of labels whose values are taken from the pod, beside a selector.
pub(super) fn label_keys(term: &Field<'_>, field: &str) {
    if !term.list(field).is_empty() && !term["labelSelector"].is_object() {
        term.at(field).forbidden("must not be specified when labelSelector is not set");
        return;
    }
    term.items(field).for_each(|key| qualified(&key, key.as_text()));
}
