//! Relaxes the schemas of configs, which may contain templates where services may not.

use serde_json::Value;

use super::inline;

/// Parts of a config's spec that may have template strings where a service has the rendered value.
const TEMPLATED: [&str; 8] = [
    "/properties/router/properties/route/properties/http/properties/spec",
    "/properties/router/properties/scheduler/properties/pool/properties/spec",
    "/properties/router/properties/scheduler/properties/template",
    "/properties/router/properties/scheduler/properties/tokenizer/properties/template",
    "/properties/template",
    "/properties/worker",
    "/properties/prefill/properties/template",
    "/properties/prefill/properties/worker",
];

/// Keywords that a template string violates although its rendered value does not. Types, enums, required fields, defaults
/// and upper bounds stay.
const RELAXED: [&str; 5] = ["pattern", "x-kubernetes-validations", "minLength", "minItems", "minProperties"];

/// Relaxes the spec schema of configs.
pub(super) fn for_templates(spec: &mut Value) {
    for pointer in TEMPLATED {
        if let Some(schema) = spec.pointer_mut(pointer) {
            inline::each_schema(schema, &|object| object.retain(|key, _| !RELAXED.contains(&key.as_str())));
        }
    }
}
