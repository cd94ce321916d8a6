//! What kube-apiserver fills into an object, and in which form it writes the rest. The table of `longboat-types` says both.

mod image;
mod rules;

use longboat_schema::{MAX_OBJECT_BYTES, size};
use longboat_types::{DefaultValue, Field, Presence, Shape, TypeDef, type_def};
use serde_json::{Map, Value};

use super::quantity;

/// Fills the defaults into a value of a type of the table.
///
/// A type of a built-in kind gets the form in which kube-apiserver writes it: without what Go omits, with what Go always
/// writes, and with quantities in their canonical form. Other types are parts of custom resources. They only get the defaults of
/// their schema, and lose what Go's clients omit. So two values that mean the same are equal afterwards.
///
/// A value that its defaults make too large to be stored does not get the rest of them.
pub fn fill_in(type_name: &str, value: &mut Value) {
    if let (Some(def), Value::Object(map)) = (type_def(type_name), value) {
        let form = if def.built_in { Form::Go } else { Form::Json };
        Filler { form, bytes_left: MAX_OBJECT_BYTES }.object(map, def);
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

/// Fills defaults into one value.
struct Filler {
    form: Form,
    bytes_left: usize,
}

// === impl Filler ===

impl Filler {
    fn object(&mut self, map: &mut Map<String, Value>, def: &'static TypeDef) {
        for field in &def.fields {
            let default = match (self.form, &field.default) {
                (Form::Json, Some(DefaultValue::Schema(default))) => Some(default),
                _ => None,
            };
            match (self.form, default) {
                (Form::Go, _) => self.built_in(map, field),
                (Form::Json, Some(default)) if map.get(field.name).is_none_or(Value::is_null) => {
                    self.insert(map, field.name, default.clone());
                }
                _ => {}
            }
            let Some(value) = map.get_mut(field.name) else { continue };
            self.parts(value, &field.shape);
            // A struct may have become empty only now.
            let is_omitted = value.is_null() || !field.pointer && is_zero(value);
            if self.form == Form::Json && default.is_none() && is_omitted {
                map.remove(field.name);
            }
        }
    }

    fn parts(&mut self, value: &mut Value, shape: &'static Shape) {
        if self.bytes_left == 0 {
            return;
        }
        match (shape, value) {
            (Shape::Message { name, .. }, Value::Object(map)) => {
                if let Some(def) = type_def(name) {
                    self.object(map, def);
                }
            }
            (Shape::List { element, .. }, Value::Array(items)) => {
                for item in items.iter_mut() {
                    self.parts(item, element);
                }
            }
            (Shape::Map { value: inner, .. }, Value::Object(map)) => {
                map.values_mut().for_each(|value| self.parts(value, inner));
                if matches!(**inner, Shape::Quantity) && self.form == Form::Go {
                    map.values_mut().for_each(quantity::round_to_milli);
                }
            }
            (Shape::Quantity, value) => quantity::canonicalise(value),
            _ => {}
        }
    }

    fn built_in(&mut self, map: &mut Map<String, Value>, field: &'static Field) {
        if let Some(DefaultValue::Computed(rule)) = field.default {
            rules::apply(rule, map);
        }
        let is_set = map.get(field.name).is_some_and(|value| match (value, &field.shape) {
            (Value::Null, _) => false,
            // The zero value of the first type is the number. Of a raw value, Go keeps the text.
            (Value::String(_), Shape::IntOrString) | (_, Shape::Raw) => true,
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
            Some(value) => self.insert(map, field.name, value),
            None => {
                map.remove(field.name);
            }
        }
    }

    fn insert(&mut self, map: &mut Map<String, Value>, name: &str, value: Value) {
        self.bytes_left = self.bytes_left.saturating_sub(name.len() + size(&value));
        map.insert(name.to_owned(), value);
    }
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

/// Sets a field if it is missing or null.
pub fn fill(object: &mut Value, key: &str, default: impl Into<Value>) {
    if object.get(key).is_none_or(Value::is_null) {
        object[key] = default.into();
    }
}

#[cfg(test)]
mod tests;
