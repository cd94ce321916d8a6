//! What kube-apiserver fills into an object, and in which form it writes the rest. The table of `longboat-types` says both.

mod image;
mod rules;

use longboat_types::{DefaultValue, Field, Presence, Shape, TypeDef, type_def};
use serde_json::{Map, Value};

use super::quantity;

/// Fills the defaults into a value of a type of the table.
///
/// A type of a built-in kind gets the form in which kube-apiserver writes it: without what Go omits, with what Go always
/// writes, and with quantities in their canonical form. Other types are parts of custom resources. They only get the defaults of
/// their schema, and lose what Go's clients omit. So two values that mean the same are equal afterwards.
pub fn fill_in(type_name: &str, value: &mut Value) {
    if let (Some(def), Value::Object(map)) = (type_def(type_name), value) {
        object(map, def, if def.built_in { Form::Go } else { Form::Json });
    }
}

/// What an object is to the API server.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// A Go struct, of a built-in kind: a zero value and a missing value are the same, unless the field is a pointer.
    Go,
    /// JSON, of a custom resource: only a missing value gets a default. The types of Kubernetes in it get no other defaults than
    /// these.
    Json,
}

fn object(map: &mut Map<String, Value>, def: &'static TypeDef, form: Form) {
    for field in &def.fields {
        let default = match (form, &field.default) {
            (Form::Json, Some(DefaultValue::Schema(default))) => Some(default),
            _ => None,
        };
        match (form, default) {
            (Form::Go, _) => built_in(map, field),
            (Form::Json, Some(default)) if map.get(field.name).is_none_or(Value::is_null) => {
                map.insert(field.name.to_owned(), default.clone());
            }
            _ => {}
        }
        let Some(value) = map.get_mut(field.name) else { continue };
        parts(value, &field.shape, form);
        // A struct may have become empty only now.
        let is_omitted = value.is_null() || !field.pointer && is_zero(value);
        if form == Form::Json && default.is_none() && is_omitted {
            map.remove(field.name);
        }
    }
}

fn parts(value: &mut Value, shape: &'static Shape, form: Form) {
    match (shape, value) {
        (Shape::Message { name, .. }, Value::Object(map)) => {
            if let Some(def) = type_def(name) {
                object(map, def, form);
            }
        }
        (Shape::List { element, .. }, Value::Array(items)) => {
            for item in items.iter_mut() {
                parts(item, element, form);
            }
        }
        (Shape::Map { value: inner, .. }, Value::Object(map)) => {
            map.values_mut().for_each(|value| parts(value, inner, form));
            if matches!(**inner, Shape::Quantity) && form == Form::Go {
                map.values_mut().for_each(quantity::round_to_milli);
            }
        }
        (Shape::Quantity, value) => quantity::canonicalise(value),
        _ => {}
    }
}

fn built_in(map: &mut Map<String, Value>, field: &'static Field) {
    if let Some(DefaultValue::Computed(rule)) = field.default {
        rules::apply(rule, map);
    }
    let is_set = map.get(field.name).is_some_and(|value| match (value, &field.shape) {
        (Value::Null, _) => false,
        // The zero value of this type is the number.
        (Value::String(_), Shape::IntOrString) => true,
        _ => field.pointer || !is_zero(value),
    });
    if is_set {
        return;
    }
    let written = match &field.default {
        Some(DefaultValue::Schema(default) | DefaultValue::Server(default))
            if field.pointer || !is_zero(default) =>
        {
            Some(default.clone())
        }
        _ => (field.presence == Presence::Zero).then(|| field.shape.zero()),
    };
    match written {
        Some(value) => map.insert(field.name.to_owned(), value),
        None => map.remove(field.name),
    };
}

/// Whether Go takes a value for the zero value of its type.
pub fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

#[cfg(test)]
mod tests;
