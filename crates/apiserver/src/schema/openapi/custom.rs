//! Components for custom resources.

use serde_json::{Map, Value, json};

use super::components::{OBJECT_META, kind_of, reference};
use crate::kinds::{Custom, Resource};

/// Adds the kind of `resource`. Returns the name of its component: the reversed group, the version, the kind.
pub(super) fn add(resource: &Resource, custom: &Custom, schemas: &mut Map<String, Value>) -> String {
    let group: Vec<&str> = resource.group.rsplit('.').collect();
    let name = format!("{}.{}.{}", group.join("."), resource.version, resource.kind);
    // The default schema has no text.
    let mut schema: Value = serde_json::from_str(custom.schema.source()).unwrap_or_default();
    if !schema.is_object() {
        schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    }
    expand(&mut schema);
    head(&mut schema, false);
    schema["x-kubernetes-group-version-kind"] = json!([kind_of(resource, &resource.kind)]);
    if !custom.selectable.is_empty() {
        schema["x-kubernetes-selectable-fields"] =
            custom.selectable.iter().map(|path| json!({"fieldPath": path})).collect();
    }
    schemas.insert(name.clone(), schema);
    name
}

/// Expresses extensions in plain OpenAPI.
fn expand(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    if map.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true))
        && !map.contains_key("anyOf")
        && !map.contains_key("allOf")
    {
        map.insert("anyOf".to_owned(), json!([{"type": "integer"}, {"type": "string"}]));
    }
    for key in ["properties", "patternProperties"] {
        if let Some(properties) = map.get_mut(key).and_then(Value::as_object_mut) {
            properties.values_mut().for_each(expand);
        }
    }
    for key in ["items", "additionalProperties", "not"] {
        if let Some(child) = map.get_mut(key) {
            expand(child);
        }
    }
    if map.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
        head(schema, true);
    }
}

/// Adds the fields that every resource has.
fn head(schema: &mut Value, embedded: bool) {
    let mut put = |field: &str, value: Value| {
        let known = schema["properties"][field].clone();
        let mut value = value;
        // The author's own description is kept.
        if let Some(description) = known.get("description") {
            value["description"] = description.clone();
        }
        schema["properties"][field] = value;
    };
    put(
        "apiVersion",
        json!({"type": "string", "description": "The versioned schema that this object follows."}),
    );
    put("kind", json!({"type": "string", "description": "The type of the object, in CamelCase."}));
    put(
        "metadata",
        json!({"allOf": [reference(OBJECT_META)], "description": "Standard object metadata: name, \
                                                                  namespace, labels, annotations."}),
    );
    if embedded {
        let mut required = schema["required"].as_array().cloned().unwrap_or_default();
        for field in ["kind", "apiVersion"] {
            if !required.iter().any(|known| known == field) {
                required.push(field.into());
            }
        }
        schema["required"] = Value::Array(required);
    }
}
