//! Adds the zero values that Go always writes when it serializes built-in types.

use serde_json::{Map, Value};

use longboat_types::{Presence, Shape, TypeDef, type_def};

/// Adds zero values for fields that Go structs always have, so that the object is as kube-apiserver sees it.
///
/// Ownership depends on this: nobody adds `spec` or `status` to a Deployment, because every Deployment has them.
pub fn inflate(value: &mut Value, def: &'static TypeDef) {
    if let Value::Object(map) = value {
        fill(map, def);
    }
}

fn fill(map: &mut Map<String, Value>, def: &'static TypeDef) {
    for field in &def.fields {
        match (map.get_mut(field.name), field.presence) {
            (Some(value), _) => fill_shape(value, &field.shape),
            (None, Presence::Omitted) => {}
            (None, Presence::Null) => {
                map.insert(field.name.to_owned(), Value::Null);
            }
            (None, Presence::Zero) => {
                let mut value = field.shape.zero();
                fill_shape(&mut value, &field.shape);
                map.insert(field.name.to_owned(), value);
            }
        }
    }
}

fn fill_shape(value: &mut Value, shape: &'static Shape) {
    match (value, shape) {
        (Value::Object(map), Shape::Message { name, .. }) => {
            if let Some(def) = type_def(name) {
                fill(map, def);
            }
        }
        (Value::Array(list), Shape::List { element, .. }) => {
            for child in list {
                fill_shape(child, element);
            }
        }
        (Value::Object(map), Shape::Map { value, .. }) => {
            for child in map.values_mut() {
                fill_shape(child, value);
            }
        }
        _ => {}
    }
}
