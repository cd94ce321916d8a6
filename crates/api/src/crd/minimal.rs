//! Smaller CRDs, for clusters where their size matters.

use serde_json::{Value, json};

use super::inline;

/// Removes the descriptions from CRDs of Longboat's kinds, and the schemas of versions that are not stored. Only the
/// webhooks then validate v1alpha1.
pub fn minimal(crds: &mut [Value]) {
    for crd in crds {
        for version in crd["spec"]["versions"].as_array_mut().into_iter().flatten() {
            let stored = version["storage"] == true;
            let schema = &mut version["schema"]["openAPIV3Schema"];
            if !stored {
                for part in ["spec", "status"] {
                    schema["properties"][part] = json!({
                        "type": "object",
                        "x-kubernetes-map-type": "atomic",
                        "x-kubernetes-preserve-unknown-fields": true,
                    });
                }
            }
            without_descriptions(schema);
        }
    }
}

pub(super) fn without_descriptions(schema: &mut Value) {
    inline::each_schema(schema, &|object| {
        object.remove("description");
    });
}
