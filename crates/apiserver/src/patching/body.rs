//! Decoding of patch bodies, with the error messages of kube-apiserver.

use longboat_patch::gofmt::go_type;
use longboat_types::{Shape, TypeDef, type_def};
use serde_json::Value;

use crate::{
    request::decode::{self, Document},
    status::ApiError,
    strategy::fields,
};

fn decoded(body: &[u8], prefix: &str) -> Result<Document, ApiError> {
    decode::json(body).map_err(|text| ApiError::bad_request(format!("{prefix}{text}")))
}

pub(super) fn json_patch(body: &[u8]) -> Result<Document, ApiError> {
    let document = decoded(body, "error decoding patch: ")?;
    if !document.value.is_array() {
        return Err(ApiError::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
            go_type(&document.value)
        )));
    }
    for operation in document.value.as_array().into_iter().flatten().filter(|operation| !operation.is_null())
    {
        let wrong = |value: &Value, place: &str| {
            let got = go_type(value);
            Err(ApiError::bad_request(format!(
                "error decoding patch: json: cannot unmarshal {got} into Go {place}"
            )))
        };
        let Value::Object(fields) = operation else {
            return wrong(operation, "value of type handlers.jsonPatchOp");
        };
        for field in ["op", "path", "from"] {
            if let Some(value) = fields.get(field).filter(|value| !value.is_string() && !value.is_null()) {
                return wrong(value, &format!("struct field jsonPatchOp.{field} of type string"));
            }
        }
    }
    // Duplicates in this document are duplicates within operations, not fields of the object.
    Ok(Document { duplicates: Vec::new(), ..document })
}

pub(super) fn merge_patch(body: &[u8]) -> Result<Document, ApiError> {
    let document = decoded(body, "error decoding patch: ")?;
    match &document.value {
        Value::Object(_) => Ok(document),
        Value::Null => Err(ApiError::bad_request("Invalid JSON Patch")),
        other => Err(ApiError::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_type(other)
        ))),
    }
}

pub(super) fn strategic_patch(body: &[u8]) -> Result<Document, ApiError> {
    let document = decoded(body, "")?;
    match &document.value {
        Value::Object(_) => Ok(document),
        other => Err(ApiError::bad_request(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_type(other)
        ))),
    }
}

pub(super) fn apply_patch(body: &[u8]) -> Result<Document, ApiError> {
    let document = decode::yaml(body).map_err(|text| {
        // kube-apiserver's parser counts lines from zero here, and omits line zero from the message.
        let why = text.replacen("yaml: line 1: ", "yaml: ", 1);
        ApiError::bad_request(format!("error decoding YAML: error converting YAML to JSON: {why}"))
    })?;
    match &document.value {
        Value::Object(_) => Ok(document),
        // an empty document has no kind
        Value::Null => Err(ApiError::bad_request("invalid object type: /, Kind=")),
        other => Err(ApiError::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_type(other)
        ))),
    }
}

/// Returns why the result of a strategic merge patch or of an apply does not fit the Go type, in the words of the converter
/// that kube-apiserver uses only for these patches.
pub(super) fn unrestorable(object: &Value, def: &'static TypeDef) -> Option<String> {
    object.as_object()?.iter().find_map(|(key, value)| unrestorable_field(value, &def.field(key)?.shape))
}

/// The kind of the Go value into which a value is decoded, unless it is nil.
fn kind_of(value: &Value) -> Option<&'static str> {
    Some(match value {
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
        Value::Null => return None,
    })
}

fn unrestorable_field(value: &Value, shape: &'static Shape) -> Option<String> {
    let kind = kind_of(value)?;
    let unrecognized = |wanted: &str| Some(format!("unrecognized type: {wanted}"));
    match (shape, value) {
        (Shape::Int32, Value::Number(number)) if number.is_f64() => {
            Some("cannot convert float64 to int32".to_owned())
        }
        (Shape::Int64, Value::Number(number)) if number.is_f64() => {
            Some("cannot convert float64 to int64".to_owned())
        }
        (Shape::String | Shape::Bytes, Value::String(_))
        | (Shape::Int32 | Shape::Int64 | Shape::Float, Value::Number(_))
        | (Shape::Boolean, Value::Bool(_)) => None,
        (Shape::String, _) => unrecognized("string"),
        (Shape::Int32, _) => unrecognized("int32"),
        (Shape::Int64, _) => unrecognized("int64"),
        (Shape::Float, _) => unrecognized("float64"),
        (Shape::Boolean, _) => unrecognized("bool"),
        (Shape::Message { name, .. }, Value::Object(_)) => unrestorable(value, type_def(name)?),
        (Shape::Message { .. }, _) => Some(format!("cannot restore struct from: {kind}")),
        (Shape::List { element, .. }, Value::Array(list)) => {
            list.iter().find_map(|child| unrestorable_field(child, element))
        }
        (Shape::Bytes, Value::Array(list)) => list.iter().find_map(|item| match item {
            Value::Number(number) if number.is_f64() => Some("cannot convert float64 to uint8".to_owned()),
            Value::Null | Value::Number(_) => None,
            _ => unrecognized("uint8"),
        }),
        (Shape::Bytes | Shape::List { .. }, _) => Some(format!("cannot restore slice from {kind}")),
        (Shape::Map { value: inner, .. }, Value::Object(map)) if matches!(**inner, Shape::String) => {
            let wrong = map.values().filter_map(kind_of).find(|kind| *kind != "string");
            wrong.map(|kind| format!("cannot convert {kind} to string"))
        }
        (Shape::Map { value: inner, .. }, Value::Object(map)) => {
            map.values().find_map(|child| unrestorable_field(child, inner))
        }
        (Shape::Map { .. }, _) => Some(format!("cannot restore map from {kind}")),
        (Shape::IntOrString, value) => fields::unread_int_or_string(value),
        (Shape::Quantity, value) => fields::unread_quantity(value),
        (Shape::Time, Value::String(text)) => fields::unread_time(text, false),
        (Shape::MicroTime, Value::String(text)) => fields::unread_time(text, true),
        _ => None,
    }
}
