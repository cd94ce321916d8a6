//! Conversion of the status: `v1alpha1` has fewer fields.
//!
//! The missing fields are kept in `status.annotations`, not in the annotations of the object. If an object is replaced
//! through `v1alpha1`, the API server takes its status from the stored object, converted to `v1alpha1`. So the kept fields
//! survive any change of the object's own annotations. A client that writes its own status through `v1alpha1` drops them,
//! and the controller's next reconcile restores them.

use serde::Deserialize;
use serde_json::Value;

use super::{
    fields::{Fields, annotations_of, take_annotation_of},
    kept::{pairs, put_some, take_some},
};
use crate::v1alpha2::{LLMInferenceServiceConfigStatus, LLMInferenceServiceStatus};

/// The annotation in `status.annotations` of `v1alpha1`: a JSON object with the fields of the status that only `v1alpha2`
/// has, at the same paths as in the status.
pub const KEPT_STATUS: &str = "internal.serving.kserve.io/v1alpha2.status";

/// The fields of either kind's status that `v1alpha1` lacks or never sets.
const FIELDS: &[&str] = &["router", "workloads", "appliedConfigs", "referencedBy"];
/// Fields of an address that `v1alpha1` lacks.
const ADDRESS_FIELDS: &[&str] = &["origin", "models"];
/// The fields that identify an address.
const ADDRESS_KEYS: &[&str] = &["name", "url"];

/// Converts down. The error is the path of a value that must be a map.
pub(super) fn down(status: &mut Fields) -> Result<(), &'static str> {
    // The key belongs to the conversion, so it has no meaning in a v1alpha2 object.
    take_annotation_of(status, KEPT_STATUS);
    let mut kept = Fields::new();
    for field in FIELDS {
        if let Some(value) = take_some(status, field) {
            kept.insert((*field).to_owned(), value);
        }
    }
    if let Some(Value::Array(addresses)) = status.get_mut("addresses") {
        let of_addresses: Vec<Value> =
            addresses.iter_mut().filter_map(Value::as_object_mut).map(take_of_address).collect();
        let of_value = |address: &Value| ADDRESS_FIELDS.iter().any(|field| address.get(field).is_some());
        if of_addresses.iter().any(of_value) {
            kept.insert("addresses".to_owned(), Value::Array(of_addresses));
        }
    }
    if !kept.is_empty() {
        // The conversion up removes the map together with its last entry, so an empty map must be kept explicitly.
        if status.get("annotations").and_then(Value::as_object).is_some_and(Fields::is_empty) {
            kept.insert("annotations".to_owned(), Value::Object(Fields::new()));
        }
        let annotations = annotations_of(status).ok_or("status.annotations")?;
        annotations.insert(KEPT_STATUS.to_owned(), Value::String(Value::Object(kept).to_string()));
    }
    Ok(())
}

fn take_of_address(address: &mut Fields) -> Value {
    let mut kept = Fields::new();
    for key in ADDRESS_KEYS {
        if let Some(value) = address.get(*key) {
            kept.insert((*key).to_owned(), value.clone());
        }
    }
    for field in ADDRESS_FIELDS {
        if let Some(value) = take_some(address, field) {
            kept.insert((*field).to_owned(), value);
        }
    }
    Value::Object(kept)
}

/// Converts up.
pub(super) fn up(status: &mut Fields) {
    // The schema of `v1alpha1` has this field, but it was never converted.
    status.remove("router");
    let kept = take_annotation_of(status, KEPT_STATUS);
    let Some(mut kept) = kept.as_ref().and_then(Value::as_str).and_then(read) else { return };
    if kept.contains_key("annotations") {
        status.entry("annotations").or_insert_with(|| Value::Object(Fields::new()));
    }
    for field in FIELDS {
        put_some(status, field, &mut kept);
    }
    if let Some(Value::Array(addresses)) = status.get_mut("addresses")
        && let Some(Value::Array(kept)) = kept.remove("addresses")
    {
        for (address, mut kept) in pairs(addresses, kept, ADDRESS_KEYS) {
            for field in ADDRESS_FIELDS {
                put_some(address, field, &mut kept);
            }
        }
    }
}

/// Parses the annotation. Returns `None` if this code cannot have written it.
fn read(text: &str) -> Option<Fields> {
    let kept: Value = serde_json::from_str(text).ok()?;
    // Both kinds have the annotation, and share all fields but one each.
    LLMInferenceServiceStatus::deserialize(&kept).ok()?;
    LLMInferenceServiceConfigStatus::deserialize(&kept).ok()?;
    match kept {
        Value::Object(kept) => Some(kept),
        _ => None,
    }
}
