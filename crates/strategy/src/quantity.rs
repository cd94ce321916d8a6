//! Canonical form of the resource quantities in built-in kinds.

pub(crate) use longboat_quantity::Quantity;
use serde_json::Value;

/// Rewrites each quantity of an object in its canonical form.
pub(super) fn canonicalise(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, child) in map {
                match key.as_str() {
                    "limits"
                    | "requests"
                    | "capacity"
                    | "allocatable"
                    | "hard"
                    | "used"
                    | "overhead"
                    | "defaultRequest"
                    | "maxLimitRequestRatio" => each(child),
                    "data" | "stringData" | "binaryData" | "labels" | "annotations" | "matchLabels"
                    | "nodeSelector" | "managedFields" => {}
                    "sizeLimit" | "divisor" | "averageValue" => one(child),
                    _ => canonicalise(child),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(canonicalise),
        _ => {}
    }
}

fn each(map: &mut Value) {
    match map {
        Value::Object(map) => map.values_mut().for_each(one),
        other => canonicalise(other),
    }
}

fn one(value: &mut Value) {
    let text = match &*value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return canonicalise(value),
    };
    if let Some(quantity) = Quantity::parse(&text) {
        *value = Value::String(quantity.rounded_to_milli().to_string());
    }
}
