//! What is special about StatefulSets and DaemonSets.

use serde_json::{Value, json};

use super::checks;
use crate::Field;

/// How many templates a DaemonSet has had.
pub(super) const TEMPLATES: &str = "deprecated.daemonset.template.generation";

/// Counts the templates of a DaemonSet, whatever the user says of their number.
pub(super) fn count_templates(value: &mut Value, live: &Value) {
    let before = live["metadata"]["annotations"][TEMPLATES].as_str().and_then(|text| text.parse().ok());
    let is_new = value["spec"]["template"] != live["spec"]["template"];
    let count = before.unwrap_or(0_u64) + u64::from(is_new);
    value["metadata"]["annotations"][TEMPLATES] = Value::from(count.to_string());
}

/// What is particular to a stateful set.
pub(super) fn stateful(spec: &Field<'_>) {
    let policy = spec.at("podManagementPolicy");
    if policy.as_str().is_some_and(|policy| !matches!(policy, "OrderedReady" | "Parallel")) {
        policy.invalid("must be 'OrderedReady' or 'Parallel'");
    }
    let strategy = spec.at("updateStrategy");
    let rolling = strategy.at("rollingUpdate");
    // Shown as Go shows the types.
    let shown = format!(
        "{{\"Partition\":{},\"MaxUnavailable\":{}}}",
        rolling["partition"], rolling["maxUnavailable"]
    );
    match strategy.text("type") {
        "RollingUpdate" => checks::not_negative(&rolling.at("partition")),
        "OnDelete" if rolling.is_object() => {
            rolling.invalid_as(shown, "only allowed for updateStrategy 'RollingUpdate'");
        }
        "OnDelete" => {}
        other => {
            let rolling = if rolling.is_object() { shown.as_str() } else { "null" };
            let shown = format!("{{\"Type\":\"{other}\",\"RollingUpdate\":{rolling}}}");
            strategy.invalid_as(shown, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
    for key in ["whenDeleted", "whenScaled"] {
        spec.at("persistentVolumeClaimRetentionPolicy").at(key).one_of(&["Retain", "Delete"]);
    }
    checks::not_negative(&spec.at("ordinals.start"));
}

/// What is particular to a daemon set.
pub(super) fn daemon(spec: &Field<'_>) {
    let strategy = spec.at("updateStrategy");
    let rolling = strategy.at("rollingUpdate");
    let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
    match strategy.text("type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let is_zero = |amount: &Field<'_>| {
                checks::percent(amount, true);
                match amount.value {
                    // what is neither number nor percentage counts as none
                    Value::String(text) => text.trim_end_matches('%').parse().unwrap_or(0) == 0,
                    number => number.as_i64().unwrap_or(0) == 0,
                }
            };
            match (is_zero(&unavailable), is_zero(&surge)) {
                (true, true) => unavailable.required("cannot be 0 when maxSurge is 0"),
                (false, false) => surge.invalid("may not be set when maxUnavailable is non-zero"),
                _ => {}
            }
        }
        other => {
            let part = |amount: &Value| if amount.is_null() { json!(0) } else { amount.clone() };
            // Shown as Go shows the types.
            let shown = if rolling.is_object() {
                format!("{{\"MaxUnavailable\":{},\"MaxSurge\":{}}}", part(&unavailable), part(&surge))
            } else {
                "null".to_owned()
            };
            let shown = format!("{{\"Type\":\"{other}\",\"RollingUpdate\":{shown}}}");
            strategy.unsupported_as(shown, &["RollingUpdate", "OnDelete"]);
        }
    }
}
