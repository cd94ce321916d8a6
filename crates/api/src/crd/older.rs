//! Derives the schemas of v1alpha1 from those of v1alpha2.

use serde_json::{Value, json};

use super::inline;
use crate::foreign::inferencepool_x::InferencePoolSpec;

/// Fields of the spec that v1alpha1 does not have: the path of the object with the field, and the field.
const NEWER_SPEC: [(&str, &str); 3] = [
    ("/properties/model/properties", "confidential"),
    ("/properties", "kvCacheOffloading"),
    ("/properties/prefill/properties", "kvCacheOffloading"),
];

/// The path of the managed pool, which has another shape in v1alpha1.
const POOL: &str = "/properties/router/properties/scheduler/properties/pool/properties/spec";

/// Fields of the status that v1alpha1 does not have.
const NEWER_STATUS: [(&str, &str); 6] = [
    ("/properties", "workloads"),
    ("/properties", "appliedConfigs"),
    ("/properties", "referencedBy"),
    ("/properties/router/properties", "group"),
    ("/properties/addresses/items/properties", "origin"),
    ("/properties/addresses/items/properties", "models"),
];

/// Returns the spec of v1alpha1, from that of v1alpha2 before its schema allows templates.
pub(super) fn spec(newer: &Value) -> Value {
    let mut spec = newer.clone();
    without(&mut spec, &NEWER_SPEC);
    if let Some(Value::Object(model)) = spec.pointer_mut("/properties/model/properties") {
        let criticality = json!({
            "description": "Criticality of requests to this model: `Critical`, `Standard` or `Sheddable`. Without effect in this \
                            release: the annotation `internal.serving.kserve.io/model-criticality` keeps the value for clients \
                            that read v1alpha1.",
            "type": "string",
            "enum": ["Critical", "Standard", "Sheddable"],
        });
        model.insert("criticality".to_owned(), criticality);
    }
    if let Some(pool) = spec.pointer_mut(POOL) {
        *pool = inline::schema_of::<InferencePoolSpec>();
    }
    spec
}

/// Returns the status of v1alpha1, for either kind.
pub(super) fn status(newer: &Value) -> Value {
    let mut status = newer.clone();
    without(&mut status, &NEWER_STATUS);
    // As in KServe, only v1alpha2 has the list type.
    if let Some(Value::Object(addresses)) = status.pointer_mut("/properties/addresses") {
        addresses.remove("x-kubernetes-list-type");
    }
    status
}

fn without(schema: &mut Value, fields: &[(&str, &str)]) {
    for (place, field) in fields {
        if let Some(Value::Object(properties)) = schema.pointer_mut(place) {
            properties.remove(*field);
        }
    }
}
