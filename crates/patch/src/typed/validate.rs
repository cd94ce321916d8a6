//! Checks whether an object matches its schema.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    fields::Element,
    gofmt,
    schema::{List, Map, Node, Relation, Scalar},
};

use super::{Form, SchemaError, error::all, form, item::element_of};

/// Checks that a value matches its schema: fields are declared, scalars have their type, keys are present.
///
/// Repeated elements of sets and keyed lists are an error unless `allow_duplicates` is set. Stored objects may have them, but
/// applied objects may not.
pub fn validate(value: &Value, node: Node<'_>, allow_duplicates: bool) -> Result<(), SchemaError> {
    let atom = node.atom();
    match form(&atom, Some(value)) {
        Form::Scalar => atom.scalar.map_or(Ok(()), |scalar| check_scalar(scalar, value)),
        Form::List => atom.list.map_or(Ok(()), |list| check_list(&list, value, allow_duplicates)),
        Form::Map => atom.map.map_or(Ok(()), |map| check_map(&map, value, allow_duplicates)),
    }
}

fn check_scalar(scalar: Scalar, value: &Value) -> Result<(), SchemaError> {
    let printed = || format!("&{{{}}}", gofmt::plain(value));
    match (scalar, value) {
        (_, Value::Null)
        | (Scalar::Numeric, Value::Number(_))
        | (Scalar::String, Value::String(_))
        | (Scalar::Boolean, Value::Bool(_))
        | (Scalar::Any, Value::Number(_) | Value::String(_) | Value::Bool(_)) => Ok(()),
        (Scalar::Numeric, _) => {
            Err(SchemaError::new(format!("expected numeric (int or float), got {}", gofmt::type_name(value))))
        }
        (Scalar::String, _) => Err(SchemaError::new(format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            gofmt::syntax(value)
        ))),
        (Scalar::Boolean, _) => Err(SchemaError::new(format!("expected boolean, got {}", printed()))),
        (Scalar::Any, _) => Err(SchemaError::new(format!("expected any scalar, got {}", printed()))),
    }
}

fn check_list(list: &List<'_>, value: &Value, allow_duplicates: bool) -> Result<(), SchemaError> {
    let elements = match value {
        Value::Null => return Ok(()),
        Value::Array(elements) => elements,
        other => return Err(SchemaError::new(format!("expected list, got &{{{}}}", gofmt::plain(other)))),
    };
    let mut seen = BTreeSet::new();
    let mut results = Vec::new();
    for (index, child) in elements.iter().enumerate() {
        let step = if list.relation == Relation::Atomic {
            Element::Index(i64::try_from(index).unwrap_or(i64::MAX))
        } else {
            match element_of(list, child) {
                Ok(step) => step,
                Err(text) => {
                    results.push(Err(SchemaError::new(format!("element {index}: {text}"))));
                    break;
                }
            }
        };
        if list.relation != Relation::Atomic && !seen.insert(step.clone()) && !allow_duplicates {
            results.push(Err(SchemaError::new(format!("duplicate entries for key {step}"))));
        }
        results.push(validate(child, list.element, allow_duplicates).map_err(|error| error.below(&step)));
    }
    all(results)
}

fn check_map(map: &Map<'_>, value: &Value, allow_duplicates: bool) -> Result<(), SchemaError> {
    let entries = match value {
        Value::Null => return Ok(()),
        Value::Object(entries) => entries,
        other => return Err(SchemaError::new(format!("expected map, got &{{{}}}", gofmt::plain(other)))),
    };
    let mut keys: Vec<&String> = entries.keys().collect();
    keys.sort();
    let mut results = Vec::new();
    for key in keys {
        let step = Element::field(key.as_str());
        let Some(node) = map.entry(key) else {
            results.push(Err(SchemaError::new("field not declared in schema").below(&step)));
            break;
        };
        results.push(validate(&entries[key], node, allow_duplicates).map_err(|error| error.below(&step)));
    }
    all(results)
}
