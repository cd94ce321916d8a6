//! Converts JSON to values of the Common Expression Language.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use kube_cel::cel::{
    Context,
    objects::{Key, Map},
};
use serde_json::Value;

use super::{
    Program,
    shape::{Shape, ValueAccess},
};
use crate::structural::Node;

type Cel = kube_cel::cel::Value;

/// Converts a value without a schema.
pub(super) fn plain(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(truth) => Cel::Bool(*truth),
        Value::Number(number) => number
            .as_i64()
            .map(Cel::Int)
            .or_else(|| number.as_u64().map(Cel::UInt))
            .unwrap_or_else(|| Cel::Float(number.as_f64().unwrap_or(f64::NAN))),
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(plain).collect())),
        Value::Object(map) => object(map.iter().map(|(name, value)| (name.clone(), plain(value)))),
    }
}

fn object(fields: impl Iterator<Item = (String, Cel)>) -> Cel {
    let map: HashMap<Key, Cel> = fields.map(|(name, value)| (Key::String(Arc::new(name)), value)).collect();
    Cel::Map(Map { map: Arc::new(map) })
}

/// Converts the parts of a value that are read, with the types of its schema.
pub(super) fn convert(library: &Context<'_>, value: &Value, schema: Option<&Node>, shape: &Shape) -> Cel {
    let Some(schema) = schema else { return plain(value) };
    match value {
        Value::Number(number) if schema.type_name() == "number" => {
            Cel::Float(number.as_f64().unwrap_or(f64::NAN))
        }
        Value::Number(number) if schema.type_name() == "integer" => {
            // In JSON, `1.0` is a valid integer.
            number.as_i64().or_else(|| number.as_f64().and_then(whole)).map_or_else(|| plain(value), Cel::Int)
        }
        Value::String(_) => {
            let format = schema.bounds.as_ref().and_then(|b| b.format.as_deref());
            let function = match format {
                Some("date-time" | "datetime") => {
                    TIMESTAMP.get_or_init(|| Program::compile("timestamp(self)").ok())
                }
                Some("date") => {
                    TIMESTAMP_OF_DATE.get_or_init(|| Program::compile("timestamp(self + 'T00:00:00Z')").ok())
                }
                Some("duration") => DURATION.get_or_init(|| Program::compile("duration(self)").ok()),
                Some("byte") => BYTES.get_or_init(|| Program::compile("base64.decode(self)").ok()),
                _ => return plain(value),
            };
            let mut scope = library.new_inner_scope();
            scope.add_variable_from_value("self", plain(value));
            function
                .as_ref()
                .and_then(|program| Cel::resolve(&program.expression, &scope).ok())
                .unwrap_or_else(|| plain(value))
        }
        Value::Array(items) => {
            let child = schema.items.as_deref();
            let converted = items.iter().map(|item| match shape.items() {
                ValueAccess::Into(shape) => convert(library, item, child, shape),
                ValueAccess::Presence | ValueAccess::Away => Cel::Null,
            });
            Cel::List(Arc::new(converted.collect()))
        }
        Value::Object(map) => object(map.iter().filter_map(|(name, value)| {
            let known = schema.properties.has(name.as_str());
            let key = if known { escaped(name) } else { Cow::Borrowed(name.as_str()) };
            let value = match shape.field([&key; 2]) {
                ValueAccess::Into(shape) => convert(library, value, schema.field(name), shape),
                ValueAccess::Presence => Cel::Null,
                ValueAccess::Away => return None,
            };
            Some((key.into_owned(), value))
        })),
        _ => plain(value),
    }
}

static TIMESTAMP: OnceLock<Option<Program>> = OnceLock::new();
static TIMESTAMP_OF_DATE: OnceLock<Option<Program>> = OnceLock::new();
static DURATION: OnceLock<Option<Program>> = OnceLock::new();
static BYTES: OnceLock<Option<Program>> = OnceLock::new();

#[expect(clippy::cast_possible_truncation, reason = "the value is integral and in range")]
fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
}

/// The CEL identifier for a field.
pub(crate) fn escaped(name: &str) -> Cow<'_, str> {
    if is_reserved(name) {
        return format!("__{name}__").into();
    }
    let is_special = |byte| matches!(byte, b'_' | b'.' | b'-' | b'/');
    if name.bytes().any(is_special) && (name.contains("__") || name.contains(['.', '-', '/'])) {
        return name
            .replace("__", "__underscores__")
            .replace('.', "__dot__")
            .replace('-', "__dash__")
            .replace('/', "__slash__")
            .into();
    }
    name.into()
}

/// Whether a word is reserved in CEL. A field with such a name is written `__word__`.
fn is_reserved(name: &str) -> bool {
    matches!(
        name,
        "true"
            | "false"
            | "null"
            | "in"
            | "as"
            | "break"
            | "const"
            | "continue"
            | "else"
            | "for"
            | "function"
            | "if"
            | "import"
            | "let"
            | "loop"
            | "package"
            | "namespace"
            | "return"
            | "var"
            | "void"
            | "while"
    )
}
