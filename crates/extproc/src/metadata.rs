//! Dynamic metadata: namespaced JSON-like values that accompany a message.

use std::collections::BTreeMap;

use prost_types::{ListValue, Struct, Value as ProtoValue, value::Kind};
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
        let namespaces = wire.filter_metadata.into_iter();
        Self(namespaces.map(|(namespace, fields)| (namespace, object(fields))).collect())
    }

    pub(crate) fn into_filter_metadata(self) -> wire::Metadata {
        let namespaces = self.0.into_iter().map(|(namespace, fields)| (namespace, structure(fields)));
        wire::Metadata { filter_metadata: namespaces.collect() }
    }

    /// Converts a processor's metadata: one struct whose fields are the namespaces.
    pub(crate) fn from_struct(wire: Struct) -> Self {
        let namespaces = wire.fields.into_iter().filter_map(|(namespace, value)| match value.kind {
            Some(Kind::StructValue(fields)) => Some((namespace, object(fields))),
            _ => None,
        });
        Self(namespaces.collect())
    }

    pub(crate) fn into_struct(self) -> Struct {
        let value = |fields| ProtoValue { kind: Some(Kind::StructValue(structure(fields))) };
        let namespaces = self.0.into_iter().map(|(namespace, fields)| (namespace, value(fields)));
        Struct { fields: namespaces.collect() }
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

fn object(fields: Struct) -> Map<String, Value> {
    fields.fields.into_iter().map(|(key, value)| (key, json(value))).collect()
}

fn json(value: ProtoValue) -> Value {
    match value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        // NaN and infinities have no JSON form.
        Some(Kind::NumberValue(number)) => {
            serde_json::Number::from_f64(number).map_or(Value::Null, Value::Number)
        }
        Some(Kind::StringValue(text)) => Value::String(text),
        Some(Kind::BoolValue(flag)) => Value::Bool(flag),
        Some(Kind::StructValue(fields)) => Value::Object(object(fields)),
        Some(Kind::ListValue(list)) => Value::Array(list.values.into_iter().map(json).collect()),
    }
}

fn structure(fields: Map<String, Value>) -> Struct {
    Struct { fields: fields.into_iter().map(|(key, value)| (key, protobuf(value))).collect() }
}

fn protobuf(value: Value) -> ProtoValue {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(flag) => Kind::BoolValue(flag),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Value::String(text) => Kind::StringValue(text),
        Value::Array(values) => {
            Kind::ListValue(ListValue { values: values.into_iter().map(protobuf).collect() })
        }
        Value::Object(fields) => Kind::StructValue(structure(fields)),
    };
    ProtoValue { kind: Some(kind) }
}
