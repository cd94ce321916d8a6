//! Conversion of the status: `v1alpha1` has fewer fields.
//!
//! What it does not know is kept in `status.annotations`, not in those of the object: an API server takes the status of
//! an object that is replaced through `v1alpha1` from what is stored, in `v1alpha1`, so it survives whatever happens to the
//! object's own annotations. Somebody who writes a status of their own through `v1alpha1` drops it; the controller's next
//! reconcile brings it back.

use serde_json::Value;

use super::{
    Fields, annotations_of,
    kept::{pairs, put_some, take_some},
    take_annotation_of,
};
use crate::v1alpha2::{LLMInferenceServiceConfigStatus, LLMInferenceServiceStatus};

/// In `status.annotations` of `v1alpha1`: a JSON object with the fields of the status that only `v1alpha2` has, each where
/// it is in the status.
pub const KEPT_STATUS: &str = "internal.serving.kserve.io/v1alpha2.status";

/// Fields of either kind's status that `v1alpha1` lacks, or never fills.
const FIELDS: &[&str] = &["router", "workloads", "appliedConfigs", "referencedBy"];
/// Fields of an address that `v1alpha1` lacks.
const ADDRESS_FIELDS: &[&str] = &["origin", "models"];
/// The fields that identify an address.
const ADDRESS_KEYS: &[&str] = &["name", "url"];

/// Going down; the path of what should be a map, if it is none.
pub(super) fn down(status: &mut Fields) -> Result<(), &'static str> {
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
        // The map goes with its last entry, so one that was there without any is kept, too.
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

/// Going up.
pub(super) fn up(status: &mut Fields) {
    // In the schema of `v1alpha1`, but never converted.
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

/// What an annotation keeps, if it can have been written here.
fn read(text: &str) -> Option<Fields> {
    let kept: Value = serde_json::from_str(text).ok()?;
    serde_json::from_value::<LLMInferenceServiceStatus>(kept.clone()).ok()?;
    serde_json::from_value::<LLMInferenceServiceConfigStatus>(kept.clone()).ok()?;
    match kept {
        Value::Object(kept) => Some(kept),
        _ => None,
    }
}
