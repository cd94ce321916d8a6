//! Decoding of protobuf bodies. kubectl 1.32 and later sends them for `create KIND` and `auth can-i`.
//!
//! A body starts with the four bytes `k8s\0`. Then follows a message with apiVersion, kind, and the object as another
//! message. The field numbers come from the table of built-in types.

mod wire;

use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use longboat_types::{Field, Presence, Shape, TypeDef, type_def, type_of_kind};
use serde_json::{Map, Value, json};

use crate::clock;
use wire::{Fields, Wire};

const MAGIC: &[u8] = b"k8s\0";
/// The deepest nesting that is decoded. kube-apiserver has the same limit, and no kind comes near it.
const MAX_DEPTH: usize = 100;

type DecodeResult<T> = Result<T, String>;

/// Why a body cannot be decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DecodeError {
    /// The apiVersion and the kind of the object, if the envelope is readable.
    pub(crate) kind: Option<(String, String)>,
    /// A text for people.
    pub(crate) why: String,
}

/// Decodes a body into its object, which has this apiVersion and kind if it names none.
pub(crate) fn decode(body: &[u8], api_version: &str, kind: &str) -> Result<Value, DecodeError> {
    let Envelope { api_version: given_version, kind: given_kind, raw } =
        envelope(body).map_err(|why| DecodeError { kind: None, why })?;
    let or = |given: String, default: &str| if given.is_empty() { default.to_owned() } else { given };
    let (api_version, kind) = (or(given_version, api_version), or(given_kind, kind));
    // Every group has this kind: clients send it with the version of the object to delete.
    let def = match kind.as_str() {
        "DeleteOptions" => type_def("meta.v1.DeleteOptions"),
        _ => type_of_kind(&api_version, &kind),
    };
    let decoded = def
        .ok_or_else(|| {
            format!(
                "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"pkg/runtime/scheme.go:110\""
            )
        })
        .and_then(|def| message(def, raw, 0));
    match decoded {
        Ok(mut object) => {
            object.insert("apiVersion".to_owned(), Value::from(api_version));
            object.insert("kind".to_owned(), Value::from(kind));
            Ok(Value::Object(object))
        }
        Err(why) => Err(DecodeError { kind: Some((api_version, kind)), why }),
    }
}

/// Kubernetes' `runtime.Unknown`: the type of an object, and its encoded bytes.
struct Envelope<'b> {
    api_version: String,
    kind: String,
    raw: &'b [u8],
}

fn envelope(body: &[u8]) -> DecodeResult<Envelope<'_>> {
    let envelope = body
        .strip_prefix(MAGIC)
        .ok_or("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in Fields::new(envelope) {
        match field? {
            (1, Wire::Bytes(meta)) => {
                for field in Fields::new(meta) {
                    match field? {
                        (1, Wire::Bytes(bytes)) => api_version = text(bytes)?,
                        (2, Wire::Bytes(bytes)) => kind = text(bytes)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    Ok(Envelope { api_version, kind, raw })
}

fn text(bytes: &[u8]) -> DecodeResult<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "proto: a string is not UTF-8".to_owned())
}

fn message(def: &'static TypeDef, bytes: &[u8], depth: usize) -> DecodeResult<Map<String, Value>> {
    if depth > MAX_DEPTH {
        return Err("proto: nested too deep".to_owned());
    }
    let mut object = Map::new();
    for field in Fields::new(bytes) {
        let (number, wire) = field?;
        let own = def.fields.iter().find(|field| field.number == number && !field.embedded);
        if let Some(field) = own {
            set(&mut object, field, &wire, depth)?;
        } else if let Some((_, name)) = def.embedded().find(|(embedded, _)| *embedded == number)
            && let (Wire::Bytes(bytes), Some(def)) = (&wire, type_def(name))
        {
            object.append(&mut message(def, bytes, depth + 1)?);
        }
    }
    Ok(object)
}

/// Adds a field from the wire. A repeated field arrives once for each element.
fn set(
    object: &mut Map<String, Value>,
    field: &'static Field,
    wire: &Wire<'_>,
    depth: usize,
) -> DecodeResult<()> {
    match (&field.shape, wire) {
        (Shape::List { element, .. }, wire) => {
            let entry = object.entry(field.name).or_insert_with(|| json!([]));
            if let Value::Array(list) = entry {
                match (element.as_ref(), wire) {
                    (Shape::Int32 | Shape::Int64, Wire::Bytes(packed)) => {
                        for number in wire::varints(packed) {
                            list.push(Value::from(number?.cast_signed()));
                        }
                    }
                    _ => list.push(value(element, wire, depth)?),
                }
            }
        }
        (Shape::Map { value: inner, .. }, Wire::Bytes(bytes)) => {
            let (key, value) = entry(inner, bytes, depth)?;
            let entry = object.entry(field.name).or_insert_with(|| json!({}));
            if let Value::Object(map) = entry {
                map.insert(key, value);
            }
        }
        (shape, wire) => {
            let value = value(shape, wire, depth)?;
            // The wire has some fields even if they are zero. Like kube-apiserver's JSON encoding, this omits them unless the
            // Go type keeps zero values.
            let zero = match &value {
                Value::Null => true,
                Value::Bool(flag) => !flag,
                Value::String(text) => text.is_empty(),
                Value::Number(number) => number.as_i64() == Some(0),
                Value::Array(_) | Value::Object(_) => false,
            };
            let kept = field.pointer
                || matches!(field.presence, Presence::Zero) && !matches!(shape, Shape::IntOrString);
            if !zero || kept && !value.is_null() {
                object.insert(field.name.to_owned(), value);
            }
        }
    }
    Ok(())
}

/// Decodes an entry of a map: a message of key and value.
fn entry(shape: &'static Shape, bytes: &[u8], depth: usize) -> DecodeResult<(String, Value)> {
    let mut key = String::new();
    let mut found = None;
    for field in Fields::new(bytes) {
        match field? {
            (1, Wire::Bytes(bytes)) => key = text(bytes)?,
            (2, wire) => found = Some(value(shape, &wire, depth)?),
            _ => {}
        }
    }
    Ok((key, found.unwrap_or_else(|| empty(shape))))
}

fn empty(shape: &Shape) -> Value {
    match shape {
        Shape::String | Shape::Bytes => json!(""),
        Shape::Message { .. } | Shape::Map { .. } => json!({}),
        Shape::List { .. } => json!([]),
        Shape::Boolean => json!(false),
        Shape::Quantity => json!("0"),
        _ => json!(0),
    }
}

fn value(shape: &'static Shape, wire: &Wire<'_>, depth: usize) -> DecodeResult<Value> {
    Ok(match (shape, wire) {
        (Shape::String, Wire::Bytes(bytes)) => Value::from(text(bytes)?),
        (Shape::Bytes, Wire::Bytes(bytes)) => Value::from(BASE64_STANDARD.encode(bytes)),
        (Shape::Int32 | Shape::Int64, Wire::Varint(number)) => Value::from(number.cast_signed()),
        (Shape::Boolean, Wire::Varint(number)) => Value::from(*number != 0),
        (Shape::Float, Wire::Fixed64(bits)) => json!(f64::from_bits(*bits)),
        (Shape::Message { name, .. }, Wire::Bytes(bytes)) => {
            let def = type_def(name).ok_or_else(|| format!("no type {name}"))?;
            Value::Object(message(def, bytes, depth + 1)?)
        }
        (Shape::Quantity, Wire::Bytes(bytes)) => Value::from(string_field(bytes)?),
        (Shape::Time, Wire::Bytes(bytes)) => {
            time(bytes)?.map_or(Value::Null, |time| clock::seconds(time).into())
        }
        (Shape::MicroTime, Wire::Bytes(bytes)) => {
            time(bytes)?.map_or(Value::Null, |time| clock::micros(time).into())
        }
        (Shape::IntOrString, Wire::Bytes(bytes)) => int_or_string(bytes)?,
        (Shape::Raw | Shape::Json | Shape::FieldSet | Shape::Schema, Wire::Bytes(bytes)) => json_in(bytes)?,
        // The only map values that are lists are wrapped in a message.
        (Shape::List { element, .. }, Wire::Bytes(bytes)) => {
            let mut list = Vec::new();
            for field in Fields::new(bytes) {
                if let (1, wire) = field? {
                    list.push(value(element, &wire, depth + 1)?);
                }
            }
            Value::Array(list)
        }
        _ => return Err("proto: wrong wire type".to_owned()),
    })
}

/// Returns the string in field 1.
fn string_field(bytes: &[u8]) -> DecodeResult<String> {
    let mut found = String::new();
    for field in Fields::new(bytes) {
        if let (1, Wire::Bytes(bytes)) = field? {
            found = text(bytes)?;
        }
    }
    Ok(found)
}

/// Returns the JSON document in field 1.
fn json_in(bytes: &[u8]) -> DecodeResult<Value> {
    for field in Fields::new(bytes) {
        if let (1, Wire::Bytes(bytes)) = field? {
            return serde_json::from_slice(bytes).map_err(|error| error.to_string());
        }
    }
    Ok(Value::Null)
}

/// Decodes a time from seconds and nanoseconds. Returns `None` if both are missing.
fn time(bytes: &[u8]) -> DecodeResult<Option<Timestamp>> {
    let (mut seconds, mut nanos) = (None, 0);
    for field in Fields::new(bytes) {
        match field? {
            (1, Wire::Varint(number)) => seconds = Some(number.cast_signed()),
            (2, Wire::Varint(number)) => nanos = i32::try_from(number.cast_signed()).unwrap_or(0),
            _ => {}
        }
    }
    seconds.map(|seconds| Timestamp::new(seconds, nanos).map_err(|error| error.to_string())).transpose()
}

fn int_or_string(bytes: &[u8]) -> DecodeResult<Value> {
    let (mut is_text, mut number, mut string) = (false, 0, String::new());
    for field in Fields::new(bytes) {
        match field? {
            (1, Wire::Varint(kind)) => is_text = kind == 1,
            (2, Wire::Varint(value)) => number = value.cast_signed(),
            (3, Wire::Bytes(bytes)) => string = text(bytes)?,
            _ => {}
        }
    }
    Ok(if is_text { Value::from(string) } else { Value::from(number) })
}

#[cfg(test)]
mod tests;
