//! The fields of the built-in kinds and their types, as kube-apiserver's decoder sees them.

mod json_error;
pub mod kinds;

use std::{fmt::Write, sync::LazyLock};

use base64::{Engine, prelude::BASE64_STANDARD};
use longboat_schema::go_type;
use longboat_types::{Field, Shape, TypeDef, go::GoType, type_def, type_of_kind};
use regex::Regex;
use serde_json::{Map, Value};

pub use self::json_error::json_error;
use crate::{clock, kinds::Resource};

/// The type of the schemas in a CustomResourceDefinition.
const SCHEMA: &str = "apiextensions.v1.JSONSchemaProps";

static QUANTITY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$")
        .expect("the pattern is a literal that tests compile")
});

/// Removes from `object` the fields that the built-in kind of `resource` does not have. Also removes nulls, which mean the
/// same as a missing field; in lists and maps, a null becomes the zero value. Writes times as Go does. Returns the dotted
/// paths of the unknown fields.
pub(crate) fn prune_builtin(resource: &Resource, object: &mut Value) -> Vec<String> {
    let mut dropped = Vec::new();
    let kind = type_of_kind(&resource.api_version(), &resource.kind);
    if let (Some(kind), Value::Object(map)) = (kind, object) {
        prune(map, kind, &mut String::new(), &mut dropped);
    }
    dropped
}

fn prune(map: &mut Map<String, Value>, kind: &TypeDef, path: &mut String, dropped: &mut Vec<String>) {
    map.retain(|name, value| {
        let length = path.len();
        if length > 0 {
            path.push('.');
        }
        path.push_str(name);
        let keep = match kind.field(name) {
            Some(_) if value.is_null() => false,
            Some(field) => {
                prune_value(value, &field.shape, path, dropped);
                true
            }
            None => {
                dropped.push(path.clone());
                false
            }
        };
        path.truncate(length);
        keep
    });
}

fn prune_value(value: &mut Value, shape: &Shape, path: &mut String, dropped: &mut Vec<String>) {
    let length = path.len();
    match (shape, value) {
        (Shape::Message { name, .. }, Value::Object(map)) => prune_struct(map, name, path, dropped),
        (Shape::Schema, Value::Object(map)) => prune_struct(map, SCHEMA, path, dropped),
        (Shape::Schema, Value::Array(items)) => {
            prune_items(items, &Shape::Message { name: SCHEMA, atomic: false }, path, dropped);
        }
        (Shape::List { element, .. }, Value::Array(items)) => prune_items(items, element, path, dropped),
        (Shape::Bytes, value @ Value::Array(_)) => {
            if let Some(bytes) = listed_bytes(value) {
                *value = Value::from(BASE64_STANDARD.encode(bytes));
            }
        }
        (Shape::Time, value) => clock::normalise(value, clock::seconds),
        (Shape::MicroTime, value) => clock::normalise(value, clock::micros),
        (Shape::Map { value: shape, .. }, Value::Object(map)) => {
            for (name, value) in map.iter_mut() {
                set_zero(value, shape);
                path.push('.');
                path.push_str(name);
                prune_value(value, shape, path, dropped);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

fn prune_struct(map: &mut Map<String, Value>, name: &str, path: &mut String, dropped: &mut Vec<String>) {
    if let Some(kind) = type_def(name) {
        prune(map, kind, path, dropped);
    }
}

/// Replaces a null in a list or map by the zero value of the element type.
fn set_zero(value: &mut Value, shape: &Shape) {
    if value.is_null() {
        *value = if matches!(shape, Shape::Bytes) { Value::from("") } else { shape.zero() };
    }
}

/// Decodes bytes that are given as a list of numbers instead of a text.
fn listed_bytes(value: &Value) -> Option<Vec<u8>> {
    let byte = |item: &Value| match item {
        Value::Null => Some(0),
        item => item.as_u64().and_then(|number| u8::try_from(number).ok()),
    };
    value.as_array()?.iter().map(byte).collect()
}

fn prune_items(items: &mut [Value], shape: &Shape, path: &mut String, dropped: &mut Vec<String>) {
    let length = path.len();
    for (index, item) in items.iter_mut().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(path, "[{index}]");
        set_zero(item, shape);
        prune_value(item, shape, path, dropped);
        path.truncate(length);
    }
}

/// Returns why `object` cannot be decoded as the built-in kind of `resource` (a wrong JSON type somewhere), in the words of
/// kube-apiserver's decoder, without its prefix `… in version … cannot be handled as a …: `.
pub fn mistyped_builtin_field(resource: &Resource, object: &Value) -> Option<String> {
    let kind = type_of_kind(&resource.api_version(), &resource.kind)?;
    match object {
        Value::Object(map) => mistyped(map, kind, ""),
        Value::Null => None,
        other => Some(format!(
            "json: cannot unmarshal {} into Go value of type {}.{}",
            go_type(other),
            resource.version,
            resource.kind
        )),
    }
}

fn mistyped(map: &Map<String, Value>, kind: &TypeDef, path: &str) -> Option<String> {
    map.iter().find_map(|(name, value)| {
        let field = kind.field(name)?;
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        type_error(value, field, &field.shape, kind, &path)
    })
}

fn type_error(value: &Value, field: &Field, shape: &Shape, kind: &TypeDef, path: &str) -> Option<String> {
    let wrong = |got: &str, expected: &str| {
        Some(format!(
            "json: cannot unmarshal {got} into Go struct field {}.{path} of type {expected}",
            kind.short_name()
        ))
    };
    let other = || {
        let expected = match field.go_type_of(shape) {
            // These types decode themselves, from another type.
            GoType::Quantity | GoType::Time | GoType::MicroTime => "string".to_owned(),
            GoType::IntOrString => "int32".to_owned(),
            ty => ty.to_string(),
        };
        wrong(go_type(value), &expected)
    };
    match (shape, value) {
        (_, Value::Null)
        | (Shape::Raw | Shape::Json | Shape::FieldSet | Shape::Schema, _)
        | (Shape::String | Shape::Url | Shape::IntOrString, Value::String(_))
        | (Shape::Boolean, Value::Bool(_))
        | (Shape::Float | Shape::Quantity, Value::Number(_)) => None,
        (Shape::Message { name, .. }, Value::Object(map)) => mistyped(map, type_def(name)?, path),
        (Shape::List { element, .. }, Value::Array(items)) => {
            items.iter().find_map(|item| type_error(item, field, element, kind, path))
        }
        (Shape::Map { value: inner, .. }, Value::Object(map)) => {
            map.values().find_map(|value| type_error(value, field, inner, kind, path))
        }
        (Shape::Int32 | Shape::IntOrString, Value::Number(number)) => match number.as_i64() {
            Some(n) if i32::try_from(n).is_ok() => None,
            _ => wrong(&format!("number {number}"), "int32"),
        },
        (Shape::Int64, Value::Number(number)) => {
            if number.is_i64() {
                None
            } else {
                wrong(&format!("number {number}"), "int64")
            }
        }
        (Shape::Bytes, Value::Array(items)) => items.iter().find_map(|item| match item {
            Value::Null => None,
            Value::Number(number) => {
                let fits = number.as_u64().is_some_and(|number| u8::try_from(number).is_ok());
                if fits { None } else { wrong(&format!("number {number}"), "uint8") }
            }
            item => wrong(go_type(item), "uint8"),
        }),
        (Shape::Bytes, Value::String(text)) => {
            let clean: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
            let bad = clean
                .bytes()
                .position(|b| !b.is_ascii_alphanumeric() && !matches!(b, b'+' | b'/' | b'='))
                .unwrap_or(clean.len().saturating_sub(clean.len() % 4));
            BASE64_STANDARD
                .decode(&clean)
                .is_err()
                .then(|| format!("illegal base64 data at input byte {bad}"))
        }
        (Shape::Time, Value::String(text)) => unread_time(text, false),
        (Shape::MicroTime, Value::String(text)) => unread_time(text, true),
        (Shape::Quantity, value) => unread_quantity(value),
        _ => other(),
    }
}

/// Returns the error for a value that is not a quantity.
pub fn unread_quantity(value: &Value) -> Option<String> {
    if value.is_number() || value.as_str().is_some_and(|text| QUANTITY.is_match(text)) {
        return None;
    }
    let why = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    Some(why.to_owned())
}

/// Returns the error of Go's time parser for a text that is not a time. With `micro`, a time needs microseconds.
pub fn unread_time(text: &str, micro: bool) -> Option<String> {
    let layout = if micro { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
    let time = clock::parse(text);
    if time.is_some() && (!micro || six_digits(text)) {
        return None;
    }
    let year = text.len() >= 4 && text.as_bytes()[..4].iter().all(u8::is_ascii_digit);
    let (rest, element) = if !year {
        (text, "2006")
    } else if micro && time.is_some() {
        (text.get(19..).unwrap_or_default(), ".000000")
    } else {
        (text.get(4..).unwrap_or_default(), "-")
    };
    Some(format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}"))
}

/// Returns the error for a value that is neither a 32-bit number nor a text.
pub fn unread_int_or_string(value: &Value) -> Option<String> {
    let got = match value {
        Value::Null | Value::String(_) => return None,
        Value::Number(number) if number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => return None,
        Value::Number(number) => format!("number {number}"),
        other => go_type(other).to_owned(),
    };
    Some(format!("json: cannot unmarshal {got} into Go value of type int32"))
}

/// Whether a time has exactly six fractional digits, as MicroTime demands.
fn six_digits(text: &str) -> bool {
    let Some((_, fraction)) = text.split_once('.') else { return false };
    fraction.bytes().take_while(u8::is_ascii_digit).count() == 6
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{mistyped_builtin_field, prune_builtin};

    /// Generates values like those of objects, and arbitrary values.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-z]{0,5}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(
                    prop_oneof!["[a-c]", Just("labels".to_owned()), Just("containers".to_owned())],
                    inner,
                    0..4
                )
                .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

        #[test]
        fn built_in_kinds_are_read_without_a_panic(value in value()) {
            let row = crate::kinds::builtin::TABLE.iter().find(|row| row.kind == "Pod").unwrap();
            let resource = row.resource();
            let mut pod = json!({"metadata": value, "spec": value, "a": value});
            mistyped_builtin_field(&resource, &pod);
            prune_builtin(&resource, &mut pod);
            prop_assert!(prune_builtin(&resource, &mut pod).is_empty());
        }
    }
}
