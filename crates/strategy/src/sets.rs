//! What is special about StatefulSets and DaemonSets.

use serde_json::{Value, json};

use super::{checks, names};
use crate::Cause;

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
pub(super) fn stateful(spec: &Value, causes: &mut Vec<Cause>) {
    let policy = &spec["podManagementPolicy"];
    if policy.as_str().is_some_and(|policy| !matches!(policy, "OrderedReady" | "Parallel")) {
        let detail = "must be 'OrderedReady' or 'Parallel'";
        causes.push(Cause::invalid("spec.podManagementPolicy", policy, detail));
    }
    let strategy = &spec["updateStrategy"];
    let rolling = &strategy["rollingUpdate"];
    // Shown as Go shows the types.
    let shown = format!(
        "{{\"Partition\":{},\"MaxUnavailable\":{}}}",
        rolling["partition"], rolling["maxUnavailable"]
    );
    match strategy["type"].as_str().unwrap_or_default() {
        "RollingUpdate" => {
            checks::not_negative(
                &rolling["partition"],
                "spec.updateStrategy.rollingUpdate.partition",
                causes,
            );
        }
        "OnDelete" => {
            if rolling.is_object() {
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                causes.push(Cause::invalid_as("spec.updateStrategy.rollingUpdate", shown, detail));
            }
        }
        other => {
            let rolling = if rolling.is_object() { shown.as_str() } else { "null" };
            let shown = format!("{{\"Type\":\"{other}\",\"RollingUpdate\":{rolling}}}");
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            causes.push(Cause::invalid_as("spec.updateStrategy", shown, detail));
        }
    }
    if !checks::text(spec, "serviceName").is_empty() {
        checks::name(names::NameRule::Label, &spec["serviceName"], "spec.serviceName", causes);
    }
    let retention = &spec["persistentVolumeClaimRetentionPolicy"];
    for key in ["whenDeleted", "whenScaled"] {
        let own = format!("spec.persistentVolumeClaimRetentionPolicy.{key}");
        checks::one_of(&retention[key], &own, &["Retain", "Delete"], causes);
    }
    checks::not_negative(&spec["ordinals"]["start"], "spec.ordinals.start", causes);
}

/// What is particular to a daemon set.
pub(super) fn daemon(spec: &Value, causes: &mut Vec<Cause>) {
    let strategy = &spec["updateStrategy"];
    let rolling = &strategy["rollingUpdate"];
    match strategy["type"].as_str().unwrap_or_default() {
        "OnDelete" => {}
        "RollingUpdate" => {
            let path = "spec.updateStrategy.rollingUpdate";
            let mut is_zero = |key: &str| {
                checks::percent(&rolling[key], &format!("{path}.{key}"), true, causes);
                match &rolling[key] {
                    // what is neither number nor percentage counts as none
                    Value::String(text) => text.trim_end_matches('%').parse().unwrap_or(0) == 0,
                    number => number.as_i64().unwrap_or(0) == 0,
                }
            };
            match (is_zero("maxUnavailable"), is_zero("maxSurge")) {
                (true, true) => causes.push(Cause::required(
                    format!("{path}.maxUnavailable"),
                    "cannot be 0 when maxSurge is 0",
                )),
                (false, false) => causes.push(Cause::invalid(
                    format!("{path}.maxSurge"),
                    &rolling["maxSurge"],
                    "may not be set when maxUnavailable is non-zero",
                )),
                _ => {}
            }
        }
        other => {
            let part = |key: &str| if rolling[key].is_null() { json!(0) } else { rolling[key].clone() };
            // Shown as Go shows the types.
            let shown = if rolling.is_object() {
                let (unavailable, surge) = (part("maxUnavailable"), part("maxSurge"));
                format!("{{\"MaxUnavailable\":{unavailable},\"MaxSurge\":{surge}}}")
            } else {
                "null".to_owned()
            };
            causes.push(Cause {
                reason: "FieldValueNotSupported",
                message: format!(
                    "Unsupported value: {{\"Type\":\"{other}\",\"RollingUpdate\":{shown}}}: supported values: \
                     \"RollingUpdate\", \"OnDelete\""
                ),
                field: "spec.updateStrategy".to_owned(),
            });
        }
    }
}
