//! Events of core/v1 (stored) and of events.k8s.io/v1.

use serde_json::{Value, json};

use super::rename;

/// Pairs of field names: in core/v1, in events.k8s.io/v1.
const FIELDS: &[(&str, &str)] = &[
    ("metadata", "metadata"),
    ("eventTime", "eventTime"),
    ("series", "series"),
    ("action", "action"),
    ("reason", "reason"),
    ("type", "type"),
    ("related", "related"),
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("reportingInstance", "reportingInstance"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

pub(super) fn from_core(stored: &Value) -> Value {
    let mut event = json!({"kind": "Event", "apiVersion": "events.k8s.io/v1"});
    rename(stored, &mut event, FIELDS);
    // core/v1 always writes these two fields; events.k8s.io/v1 only writes them when they are not empty
    if let Some(fields) = event.as_object_mut() {
        fields.retain(|name, value| {
            !(matches!(name.as_str(), "reportingController" | "reportingInstance") && value == "")
        });
        fields.entry("eventTime").or_insert(Value::Null);
    }
    event
}

pub(super) fn to_core(event: &Value) -> Value {
    let back: Vec<(&str, &str)> = FIELDS.iter().map(|(core, new)| (*new, *core)).collect();
    let mut core = json!({"kind": "Event", "apiVersion": "v1"});
    rename(event, &mut core, &back);
    for (key, empty) in [
        ("source", json!({})),
        ("firstTimestamp", Value::Null),
        ("lastTimestamp", Value::Null),
        ("eventTime", Value::Null),
        ("reportingComponent", json!("")),
        ("reportingInstance", json!("")),
        ("involvedObject", json!({})),
    ] {
        if core.get(key).is_none() {
            core[key] = empty;
        }
    }
    core
}
