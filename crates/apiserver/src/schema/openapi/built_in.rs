//! Components for the built-in kinds.

use longboat_types::{MAP_TYPE, field_markers, type_def, type_markers};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::components::{PATCH, kind_of, reference};
use crate::{
    kinds::Resource,
    strategy::fields::kinds::{DEFINITIONS, definitions},
};

/// Adds the kind of `resource` and all types that it uses. Returns the name of its component.
pub(super) fn add(resource: &Resource, schemas: &mut Map<String, Value>) -> Option<String> {
    let found = definitions(&resource.group, &resource.version, &resource.kind)?;
    add_all(found.all, schemas);
    if let Some(Value::Object(schema)) = schemas.get_mut(&found.root) {
        // The Rust types always have metadata, but objects on the wire may omit it.
        if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|field| field != "metadata");
            if required.is_empty() {
                schema.remove("required");
            }
        }
        schema
            .insert("x-kubernetes-group-version-kind".to_owned(), json!([kind_of(resource, &resource.kind)]));
    }
    Some(found.root)
}

/// Adds the types that every document uses.
pub(super) fn add_meta(schemas: &mut Map<String, Value>) {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ListMeta, ObjectMeta, Status};
    fn one<T: JsonSchema>(generator: &mut SchemaGenerator) {
        let _ = generator.subschema_for::<T>();
    }
    let mut generator = SchemaGenerator::default();
    one::<ObjectMeta>(&mut generator);
    one::<ListMeta>(&mut generator);
    one::<DeleteOptions>(&mut generator);
    one::<Status>(&mut generator);
    add_all(generator.take_definitions(true), schemas);
    schemas.insert(
        PATCH.to_owned(),
        json!({"description": "The body of a PATCH request, in one of its media types.", "type": "object"}),
    );
}

fn add_all(definitions: Map<String, Value>, schemas: &mut Map<String, Value>) {
    for (name, mut schema) in definitions {
        if schemas.contains_key(&name) {
            continue;
        }
        to_openapi_references(&mut schema);
        mark(&name, &mut schema);
        schemas.insert(name, schema);
    }
}

/// Turns references into those of OpenAPI 3.0, where a reference must not have siblings.
fn to_openapi_references(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if let Some(name) =
                map.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix(DEFINITIONS))
            {
                let reference = reference(name);
                map.remove("$ref");
                if map.is_empty() {
                    *schema = reference;
                } else {
                    map.insert("allOf".to_owned(), json!([reference]));
                }
                return;
            }
            map.values_mut().for_each(to_openapi_references);
        }
        Value::Array(items) => items.iter_mut().for_each(to_openapi_references),
        _ => {}
    }
}

/// Adds the extensions that say how lists and maps merge, in strategic merge and in server-side apply.
fn mark(name: &str, schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    schema.extend(type_markers(name));
    let table = type_def(name);
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for (field, schema) in properties {
        let Some(schema) = schema.as_object_mut() else { continue };
        let mut markers = field_markers(name, field);
        // An atomic type carries the marker itself.
        if schema.contains_key("allOf") || schema.contains_key("$ref") {
            markers.remove(MAP_TYPE);
        }
        schema.extend(markers);
        let mut put = |key: &str, value: Value| schema.insert(key.to_owned(), value);
        let Some(strategy) = table.and_then(|table| table.field(field)).map(|field| field.patch) else {
            continue;
        };
        let how = match (strategy.merge, strategy.retain_keys) {
            _ if strategy.replace => "replace",
            (true, true) => "merge,retainKeys",
            (true, false) => "merge",
            (false, true) => "retainKeys",
            (false, false) => continue,
        };
        put("x-kubernetes-patch-strategy", how.into());
        if !strategy.key.is_empty() {
            put("x-kubernetes-patch-merge-key", strategy.key.into());
        }
    }
}
