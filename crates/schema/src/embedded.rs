//! Metadata of the object itself and of embedded resources.

use longboat_key::names::{self, NameRule};
use longboat_types::{Field, Shape, TypeDef, type_def};
use serde_json::{Map, Value};

use super::{path::join, structural::Node, validate::type_of};
use crate::Cause;

const METADATA: &str = "meta.v1.ObjectMeta";

/// Drops unknown fields of `metadata` at `path`. Returns their paths, sorted.
pub(crate) fn prune_metadata(metadata: &mut Value, path: &str) -> Vec<String> {
    let mut dropped = Vec::new();
    if let (Value::Object(map), Some(def)) = (metadata, type_def(METADATA)) {
        retain(map, path, def, &mut dropped);
    }
    dropped.sort();
    dropped
}

/// Drops the fields that a type does not have, also in its lists of structs.
fn retain(map: &mut Map<String, Value>, path: &str, def: &TypeDef, dropped: &mut Vec<String>) {
    map.retain(|name, value| {
        let Some(field) = def.field(name) else {
            dropped.push(format!("{path}.{name}"));
            return false;
        };
        if let (Value::Array(items), Shape::Message { name: element, .. }) = (value, field.shape.leaf())
            && let Some(def) = type_def(element)
        {
            for (index, item) in items.iter_mut().enumerate() {
                if let Value::Object(item) = item {
                    retain(item, &format!("{path}.{name}[{index}]"), def, dropped);
                }
            }
        }
        true
    });
}

/// Returns the error of the reference's decoder if `metadata` cannot be decoded.
pub(crate) fn mistyped_metadata(metadata: &Value) -> Option<String> {
    let Value::Object(map) = metadata else {
        return (!metadata.is_null()).then(|| {
            format!("json: cannot unmarshal {} into Go value of type v1.ObjectMeta", go_type(metadata))
        });
    };
    let def = type_def(METADATA)?;
    map.iter().find_map(|(name, value)| {
        let field = def.field(name)?;
        let (wrong, expected) = misfit(value, field, &field.shape)?;
        let got = go_type(wrong);
        Some(format!(
            "json: cannot unmarshal {got} into Go struct field ObjectMeta.{name} of type {expected}"
        ))
    })
}

/// Returns the value, or the value in it, that Go cannot decode, with the type that it should have.
fn misfit<'v>(value: &'v Value, field: &Field, shape: &Shape) -> Option<(&'v Value, String)> {
    match (shape, value) {
        (_, Value::Null)
        | (Shape::String | Shape::Time, Value::String(_))
        | (Shape::Message { .. }, Value::Object(_)) => None,
        (Shape::Int64, Value::Number(number)) if !number.is_f64() => None,
        (Shape::Map { value: inner, .. }, Value::Object(entries)) => {
            entries.values().find_map(|entry| misfit(entry, field, inner))
        }
        (Shape::List { element, .. }, Value::Array(items)) => {
            items.iter().find_map(|item| misfit(item, field, element))
        }
        // A time decodes itself, from a string.
        (Shape::Time, _) => Some((value, "string".to_owned())),
        _ => Some((value, field.go_type_of(shape).to_string())),
    }
}

/// Brings the metadata of an object and of what is embedded in it into the form in which the reference's types write it;
/// why that cannot be done, if it cannot.
pub(crate) fn coerce(object: &mut Value, schema: &Node, keeps_nulls: bool) -> Option<String> {
    if let Some(metadata) = object.get_mut("metadata") {
        if let Some(why) = mistyped_metadata(metadata) {
            return Some(why);
        }
        normalise_metadata(metadata);
    }
    let mut wrong = None;
    each_embedded(object, schema, "", &mut |resource, path| {
        for field in ["apiVersion", "kind"] {
            let is_valid = |value: &&Value| value.is_string() || keeps_nulls && value.is_null();
            if let Some(value) = resource.get(field).filter(|value| !is_valid(value)) {
                let path = join(path, field);
                wrong.get_or_insert_with(|| format!("{path}: Invalid value: {value}: must be a string"));
            }
        }
        let Some(metadata) = resource.get_mut("metadata") else { return };
        match mistyped_metadata(metadata) {
            Some(why) => {
                let path = join(path, "metadata");
                wrong.get_or_insert_with(|| format!("{path}: Invalid value: {metadata}: {why}"));
            }
            None => normalise_metadata(metadata),
        }
    });
    wrong
}

/// Drops nulls and empty values, which typed metadata does not write. A null in a map or list of strings becomes an empty
/// string.
fn normalise_metadata(metadata: &mut Value) {
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    let Value::Object(map) = metadata else { return };
    map.retain(|field, value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => {
            if field == "finalizers" {
                items.iter_mut().for_each(text_of_null);
            }
            !items.is_empty()
        }
        Value::Object(entries) => {
            entries.values_mut().for_each(text_of_null);
            !entries.is_empty()
        }
        // The other number, `deletionGracePeriodSeconds`, is a pointer in Go, so its zero is written.
        Value::Number(number) => field != "generation" || number.as_i64() != Some(0),
        Value::Bool(_) => true,
    });
}

fn text_of_null(value: &mut Value) {
    if value.is_null() {
        *value = Value::String(String::new());
    }
}

/// The name of a JSON type in messages of Go's decoder.
pub fn go_type(value: &Value) -> &'static str {
    match type_of(value) {
        "boolean" => "bool",
        "integer" | "number" => "number",
        other => other,
    }
}

/// Drops unknown metadata fields of embedded resources. Returns their paths, sorted.
pub(crate) fn prune_embedded(object: &mut Value, schema: &Node) -> Vec<String> {
    let mut dropped = Vec::new();
    each_embedded(object, schema, "", &mut |resource, path| {
        if let Some(metadata) = resource.get_mut("metadata") {
            dropped.extend(prune_metadata(metadata, &join(path, "metadata")));
        }
    });
    dropped.sort();
    dropped
}

fn each_embedded(value: &mut Value, schema: &Node, path: &str, act: &mut dyn FnMut(&mut Value, &str)) {
    if !schema.below.embedded {
        return;
    }
    if schema.embedded && value.is_object() {
        act(value, path);
    }
    match value {
        Value::Object(map) => {
            for (name, value) in map.iter_mut() {
                if let Some(child) = schema.field(name) {
                    each_embedded(value, child, &join(path, name), act);
                }
            }
        }
        Value::Array(items) => {
            if let Some(child) = &schema.items {
                for (index, item) in items.iter_mut().enumerate() {
                    each_embedded(item, child, &format!("{path}[{index}]"), act);
                }
            }
        }
        _ => {}
    }
}

/// Appends the errors in apiVersion, kind and metadata of embedded resources.
pub(crate) fn check(value: &Value, schema: &Node, path: &str, causes: &mut Vec<Cause>) {
    if !schema.below.embedded {
        return;
    }
    match value {
        Value::Object(map) => {
            if schema.embedded {
                resource(map, path, causes);
            }
            for (name, value) in map {
                let Some(child) = schema.field(name) else { continue };
                check(value, child, &join(path, name), causes);
            }
        }
        Value::Array(items) => {
            if let Some(child) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    check(item, child, &format!("{path}[{index}]"), causes);
                }
            }
        }
        _ => {}
    }
}

fn resource(map: &Map<String, Value>, path: &str, causes: &mut Vec<Cause>) {
    let text = |name: &str| map.get(name).and_then(Value::as_str).unwrap_or_default();
    let api_version = text("apiVersion");
    // what is there and empty is wrong in another way than what is missing
    let empty = |name: &str| match map.get(name) {
        Some(value) if !value.is_string() => Cause::invalid(join(path, name), value, "must be a string"),
        _ => Cause::invalid(join(path, name), &Value::from(""), "must not be empty"),
    };
    if api_version.is_empty() && map.contains_key("apiVersion") {
        causes.push(empty("apiVersion"));
    } else if api_version.is_empty() {
        causes.push(Cause::required(join(path, "apiVersion"), ""));
    } else if api_version.matches('/').count() > 1 {
        let detail = format!("unexpected GroupVersion string: {api_version}");
        causes.push(Cause::invalid(join(path, "apiVersion"), &Value::from(api_version), detail));
    }
    let kind = text("kind");
    if kind.is_empty() && map.contains_key("kind") {
        causes.push(empty("kind"));
    } else if kind.is_empty() {
        causes.push(Cause::required(join(path, "kind"), ""));
    } else {
        for why in names::problems(NameRule::Label1035, &kind.to_lowercase()) {
            let detail = format!("may have mixed case, but should otherwise match: {why}");
            causes.push(Cause::invalid(join(path, "kind"), &Value::from(kind), detail));
        }
    }
    let Some(Value::Object(metadata)) = map.get("metadata") else { return };
    let path = join(path, "metadata");
    for (key, value) in metadata.get("labels").and_then(Value::as_object).into_iter().flatten() {
        for why in names::qualified_name_problems(key) {
            causes.push(Cause::invalid(join(&path, "labels"), &Value::from(key.as_str()), why));
        }
        if let Some(why) = value.as_str().and_then(names::label_value_problem) {
            causes.push(Cause::invalid(join(&path, "labels"), value, why));
        }
    }
    for key in
        metadata.get("annotations").and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key)
    {
        for why in names::qualified_name_problems(&key.to_lowercase()) {
            causes.push(Cause::invalid(join(&path, "annotations"), &Value::from(key.as_str()), why));
        }
    }
}
