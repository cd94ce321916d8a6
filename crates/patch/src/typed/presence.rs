//! Zero values that Go always writes when it serialises built-in types.

use serde_json::{Map, Value, json};

use crate::table::{Presence, Shape, TypeDef, type_def};

/// Makes an object as kube-apiserver sees it: with the fields that a Go struct cannot be without, as zero values.
///
/// Ownership depends on it: `spec` or `status` of a Deployment is nobody's addition, since every Deployment has them.
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
                let mut value = zero(&field.shape);
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

fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::String => json!(""),
        Shape::Integer | Shape::Float | Shape::IntOrString => json!(0),
        Shape::Boolean => json!(false),
        Shape::Quantity => json!("0"),
        Shape::Message { .. } => json!({}),
        _ => Value::Null,
    }
}
