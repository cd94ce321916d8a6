//! Dynamic metadata: namespaced JSON-like values that accompany a message.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{names, wire};

/// Metadata by namespace, as a proxy forwards it and a processor sets it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata(pub BTreeMap<String, Map<String, Value>>);

impl Metadata {
    /// Whether there is no metadata.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a value of a namespace.
    pub fn get(&self, namespace: &str, key: &str) -> Option<&Value> {
        self.0.get(namespace)?.get(key)
    }

    /// Sets a value of a namespace.
    pub fn insert(&mut self, namespace: &str, key: &str, value: Value) {
        self.0.entry(namespace.to_owned()).or_default().insert(key.to_owned(), value);
    }

    /// Returns the endpoint or endpoints that a picker chose, `ip:port[,ip:port…]`.
    pub fn destination(&self) -> Option<&str> {
        self.get(names::LB_NAMESPACE, names::DESTINATION)?.as_str()
    }

    /// Returns the memory of keys and values.
    pub(crate) fn size(&self) -> usize {
        self.0.iter().map(|(namespace, fields)| namespace.len() + fields_size(fields)).sum()
    }

    pub(crate) fn from_filter_metadata(wire: wire::Metadata) -> Self {
        Self(
            wire.filter_metadata.into_iter().map(|(namespace, fields)| (namespace, object(fields))).collect(),
        )
    }

    pub(crate) fn into_filter_metadata(self) -> wire::Metadata {
        wire::Metadata {
            filter_metadata: self
                .0
                .into_iter()
                .map(|(namespace, fields)| (namespace, structure(fields)))
                .collect(),
        }
    }

    /// Converts a processor's metadata: one struct whose fields are the namespaces.
    pub(crate) fn from_struct(wire: wire::Struct) -> Self {
        Self(
            wire.fields
                .into_iter()
                .filter_map(|(namespace, value)| match value.kind {
                    Some(wire::Kind::Struct(fields)) => Some((namespace, object(fields))),
                    _ => None,
                })
                .collect(),
        )
    }

    pub(crate) fn into_struct(self) -> wire::Struct {
        wire::Struct {
            fields: self
                .0
                .into_iter()
                .map(|(namespace, fields)| {
                    (namespace, wire::Value { kind: Some(wire::Kind::Struct(structure(fields))) })
                })
                .collect(),
        }
    }
}

fn fields_size(fields: &Map<String, Value>) -> usize {
    fields.iter().map(|(key, value)| size_of::<(String, Value)>() + key.len() + value_size(value)).sum()
}

fn value_size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(|value| size_of::<Value>() + value_size(value)).sum(),
        Value::Object(fields) => fields_size(fields),
    }
}

fn object(fields: wire::Struct) -> Map<String, Value> {
    fields.fields.into_iter().map(|(key, value)| (key, json(value))).collect()
}

fn json(value: wire::Value) -> Value {
    match value.kind {
        None | Some(wire::Kind::Null(_)) => Value::Null,
        // NaN and infinities have no JSON form.
        Some(wire::Kind::Number(number)) => {
            serde_json::Number::from_f64(number).map_or(Value::Null, Value::Number)
        }
        Some(wire::Kind::String(text)) => Value::String(text),
        Some(wire::Kind::Bool(flag)) => Value::Bool(flag),
        Some(wire::Kind::Struct(fields)) => Value::Object(object(fields)),
        Some(wire::Kind::List(list)) => Value::Array(list.values.into_iter().map(json).collect()),
    }
}

fn structure(fields: Map<String, Value>) -> wire::Struct {
    wire::Struct { fields: fields.into_iter().map(|(key, value)| (key, protobuf(value))).collect() }
}

fn protobuf(value: Value) -> wire::Value {
    let kind = match value {
        Value::Null => wire::Kind::Null(0),
        Value::Bool(flag) => wire::Kind::Bool(flag),
        Value::Number(number) => wire::Kind::Number(number.as_f64().unwrap_or_default()),
        Value::String(text) => wire::Kind::String(text),
        Value::Array(values) => {
            wire::Kind::List(wire::ListValue { values: values.into_iter().map(protobuf).collect() })
        }
        Value::Object(fields) => wire::Kind::Struct(structure(fields)),
    };
    wire::Value { kind: Some(kind) }
}
