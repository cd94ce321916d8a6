//! Finds unknown fields of an object, and suggests the most similar known field.

use longboat_key::nearest;
use serde_json::Value;

/// An unknown field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnknownField {
    /// Path within the object, for example `spec.router.shceduler`.
    pub(crate) path: String,
    /// The most similar known field beside it.
    pub(crate) nearest: Option<String>,
}

/// Returns all fields of `object` that the structural schema does not have. Skips metadata, which the server checks.
pub(crate) fn unknown_fields(schema: &Value, object: &Value) -> Vec<UnknownField> {
    let mut found = Vec::new();
    for (name, value) in object.as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            visit_field(schema, name, value, name, &mut found);
        }
    }
    found
}

fn visit_field(schema: &Value, name: &str, value: &Value, path: &str, found: &mut Vec<UnknownField>) {
    let preserves = schema["x-kubernetes-preserve-unknown-fields"] == true;
    let properties = schema["properties"].as_object();
    match properties.and_then(|properties| properties.get(name)) {
        Some(schema) => visit(schema, value, path, found),
        None => match schema.get("additionalProperties") {
            Some(schema @ Value::Object(_)) => visit(schema, value, path, found),
            // A schema without properties says nothing about names: `type: object` alone allows all.
            None if !preserves && properties.is_some() => {
                found.push(UnknownField {
                    path: path.to_owned(),
                    nearest: properties
                        .and_then(|all| nearest(all.keys().map(String::as_str), name))
                        .map(ToOwned::to_owned),
                });
            }
            _ => {}
        },
    }
}

fn visit(schema: &Value, value: &Value, path: &str, found: &mut Vec<UnknownField>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                visit_field(schema, name, value, &format!("{path}.{name}"), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                visit(&schema["items"], item, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_slip_is_named_with_what_was_meant() {
        let schema = json!({"properties": {"spec": {"properties": {
            "replicas": {"type": "integer"},
            "containers": {"items": {"properties": {"image": {}}}},
            "labels": {"additionalProperties": {"type": "string"}},
            "open": {"x-kubernetes-preserve-unknown-fields": true},
        }}}});
        let object = json!({"kind": "X", "spec": {
            "replcas": 3, "containers": [{"Image": "x"}, {"entirely": 1}], "labels": {"a": "b"}, "open": {"x": 1},
        }});
        let found: Vec<_> =
            unknown_fields(&schema, &object).into_iter().map(|field| (field.path, field.nearest)).collect();
        assert_eq!(
            found,
            [
                ("spec.containers[0].Image".to_owned(), Some("image".to_owned())),
                ("spec.containers[1].entirely".to_owned(), None),
                ("spec.replcas".to_owned(), Some("replicas".to_owned())),
            ]
        );
    }
}
