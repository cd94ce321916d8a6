//! Converts JSON to values of the Common Expression Language.

use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
};

use kube_cel::cel::Context;
use serde_json::Value;

use super::{
    identifier::identifiers,
    program::{Program, object, plain},
    shape::{Shape, ValueAccess},
};
use crate::structural::Node;

type Cel = kube_cel::cel::Value;

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
                Some("date-time" | "datetime") => &TIMESTAMP,
                Some("date") => &TIMESTAMP_OF_DATE,
                Some("duration") => &DURATION,
                Some("byte") => &BYTES,
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
        Value::Object(map) => object(map.iter().flat_map(|(name, value)| {
            let convert = move |key: Cow<'_, str>| {
                let value = match shape.field(&key) {
                    ValueAccess::Into(shape) => convert(library, value, schema.field(name), shape),
                    ValueAccess::Presence => Cel::Null,
                    ValueAccess::Away => return None,
                };
                Some((key.into_owned(), value))
            };
            let declared =
                schema.properties.has(name.as_str()).then(|| identifiers(name).filter_map(convert));
            let other = declared.is_none().then(|| convert(name.into())).flatten();
            declared.into_iter().flatten().chain(other)
        })),
        _ => plain(value),
    }
}

type Conversion = LazyLock<Option<Program>>;

static TIMESTAMP: Conversion = LazyLock::new(|| Program::compile("timestamp(self)").ok());
static TIMESTAMP_OF_DATE: Conversion =
    LazyLock::new(|| Program::compile("timestamp(self + 'T00:00:00Z')").ok());
static DURATION: Conversion = LazyLock::new(|| Program::compile("duration(self)").ok());
static BYTES: Conversion = LazyLock::new(|| Program::compile("base64.decode(self)").ok());

#[expect(clippy::cast_possible_truncation, reason = "the value is integral and in range")]
fn whole(number: f64) -> Option<i64> {
    // Beyond 2^53, which is a little more, a float stands for several integers.
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
}
