//! How the reference's Go types decode and print values: for messages that show values, and for values of the wrong type.

use longboat_template::reflect::{Struct, Ty};
use serde_json::Value;

use crate::{codec, schema};

/// A value that does not fit its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeMismatch {
    /// The message of Go's decoder: `json: cannot unmarshal string into Go struct field …`.
    pub message: String,
    /// The path of the value: `spec.template.containers[0].name`.
    pub field: String,
    /// The type of the value: `string`.
    pub found: &'static str,
    /// The expected type, in JSON's words: `an integer`.
    pub expected: &'static str,
}

/// Returns the first value of a service that Go's decoder refuses. The object may also be a config, which has the same types
/// in its metadata and spec.
pub fn misfit(object: &Value) -> Option<TypeMismatch> {
    if fits(schema::TYPES.service, object) {
        debug_assert_eq!(find(schema::TYPES.service, object, &mut String::new()), None, "it fits");
        return None;
    }
    // `find` knows the place and the expected type, and the decoder has Go's words.
    let mut field = String::new();
    let (found, expected) = find(schema::TYPES.service, object, &mut field)?;
    let message = codec::normalise(schema::TYPES.service, object.clone()).err()?;
    Some(TypeMismatch { message, field, found, expected })
}

/// Returns a service or config as a program of the reference would write it after reading it: without unknown fields and most
/// zero values, and with the fields that Go always writes.
///
/// # Errors
///
/// The message of Go's decoder for a value that does not fit its type.
pub fn round_trip(object: &Value) -> Result<Value, String> {
    codec::normalise(schema::TYPES.service, object.clone())
}

/// Formats a value of a service or config as the reference's messages do: as Go prints the typed value at the path `field`
/// (`spec.prefill.worker`), in Go's order of keys, with the fields that Go adds and omits.
pub fn printed(field: &str, value: &Value) -> String {
    let ty = type_at(schema::TYPES.service, field).unwrap_or(Ty::Any);
    let value = codec::normalise(ty, value.clone()).unwrap_or_else(|_| value.clone());
    let mut out = String::new();
    codec::encode(&mut out, ty, &value);
    out
}

/// Whether a service has a field at this path of names (`spec.prefill.replicas`), set or not. The content of brackets is
/// ignored.
pub fn is_field(path: &str) -> bool {
    type_at(schema::TYPES.service, path).is_some()
}

/// The type at a path of field names and indices. Keys of maps are in brackets.
fn type_at(ty: Ty, field: &str) -> Option<Ty> {
    field.split('.').filter(|step| !step.is_empty()).try_fold(ty, |ty, step| {
        let (name, index) = step.split_once('[').map_or((step, None), |(name, index)| (name, Some(index)));
        let ty = field_type(structure(ty)?, name)?;
        if index.is_none() {
            return Some(ty);
        }
        match pointee(ty) {
            Ty::Slice(_, inner) | Ty::Map(_, inner) => Some(*inner),
            _ => None,
        }
    })
}

fn pointee(ty: Ty) -> Ty {
    match ty {
        Ty::Ptr(inner) => pointee(*inner),
        other => other,
    }
}

fn structure(ty: Ty) -> Option<&'static Struct> {
    match pointee(ty) {
        Ty::Struct(structure) => Some(structure),
        _ => None,
    }
}

fn field_type(structure: &'static Struct, name: &str) -> Option<Ty> {
    schema::find_field(structure, name).map(|(_, ty)| ty)
}

/// Whether all values fit, so that [`find`] would return `None`. This takes half as long, because it visits only the fields
/// that are present.
fn fits(ty: Ty, json: &Value) -> bool {
    match (pointee(ty), json) {
        (_, Value::Null)
        | (Ty::Raw | Ty::Any, _)
        | (Ty::Str(_), Value::String(_))
        | (Ty::Bool(_), Value::Bool(_)) => true,
        (Ty::Struct(structure), Value::Object(map)) => map.iter().all(|(name, value)| {
            value.is_null() || field_type(structure, name).is_none_or(|ty| fits(ty, value))
        }),
        (Ty::Slice(_, inner), Value::Array(items)) => items.iter().all(|item| fits(*inner, item)),
        (Ty::Map(_, inner), Value::Object(map)) => map.values().all(|item| fits(*inner, item)),
        (Ty::Struct(_) | Ty::Slice(..) | Ty::Map(..), _) => false,
        (ty, _) => codec::normalise(ty, json.clone()).is_ok(),
    }
}

/// Finds the first value that does not fit. Writes its path, and returns its type and the expected one.
fn find(ty: Ty, json: &Value, path: &mut String) -> Option<(&'static str, &'static str)> {
    let ty = pointee(ty);
    match (ty, json) {
        (_, Value::Null)
        | (Ty::Raw | Ty::Any, _)
        | (Ty::Str(_), Value::String(_))
        | (Ty::Bool(_), Value::Bool(_)) => None,
        (Ty::Struct(structure), Value::Object(map)) => fields(structure, map, path),
        (Ty::Slice(_, inner), Value::Array(items)) => items
            .iter()
            .enumerate()
            .find_map(|(i, item)| within(path, ["[", &i.to_string(), "]"], |path| find(*inner, item, path))),
        (Ty::Map(_, inner), Value::Object(map)) => {
            map.iter().find_map(|(key, item)| within(path, ["[", key, "]"], |path| find(*inner, item, path)))
        }
        (Ty::Struct(_) | Ty::Slice(..) | Ty::Map(..), _) => Some((kind(json), expected(ty))),
        _ => {
            let fits = codec::normalise(ty, json.clone()).is_ok();
            (!fits).then(|| (kind(json), expected(ty)))
        }
    }
}

fn fields(
    structure: &'static Struct,
    map: &serde_json::Map<String, Value>,
    path: &mut String,
) -> Option<(&'static str, &'static str)> {
    structure.fields().iter().find_map(|field| match field.ty {
        Ty::Struct(inner) if field.json.is_empty() => fields(inner, map, path),
        ty => {
            let value = map.get(field.json)?;
            let dot = if path.is_empty() { "" } else { "." };
            within(path, [dot, field.json], |path| find(ty, value, path))
        }
    })
}

/// Runs `look` with the path extended by one step. If `look` finds something, the step stays.
fn within<const N: usize, T>(
    path: &mut String,
    step: [&str; N],
    look: impl FnOnce(&mut String) -> Option<T>,
) -> Option<T> {
    let before = path.len();
    for part in step {
        path.push_str(part);
    }
    let found = look(path);
    if found.is_none() {
        path.truncate(before);
    }
    found
}

fn kind(json: &Value) -> &'static str {
    match json {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

fn expected(ty: Ty) -> &'static str {
    match ty {
        Ty::Struct(_) | Ty::Map(..) => "an object",
        Ty::Slice(..) => "a list",
        Ty::Bool(_) => "true or false",
        Ty::Int(_) => "an integer",
        Ty::Float(_) => "a number",
        Ty::Quantity => "a quantity such as 500m or 4Gi",
        Ty::IntOrString => "an integer or a string",
        Ty::Url => "a URL",
        Ty::Time => "a time",
        Ty::Str(_) | Ty::Ptr(_) | Ty::Raw | Ty::Any => "a string",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{misfit, printed};

    #[test]
    fn a_value_of_the_wrong_type_is_named_by_its_path() {
        for (object, field, expected) in [
            (json!({"spec": {"replicas": "two"}}), "spec.replicas", "an integer"),
            (json!({"spec": {"router": {"route": []}}}), "spec.router.route", "an object"),
            (
                json!({"spec": {"template": {"containers": [{"name": "a"}, {"env": [{"name": "x", "value": 1}]}]}}}),
                "spec.template.containers[1].env[0].value",
                "a string",
            ),
            (json!({"metadata": {"labels": {"a": true}}}), "metadata.labels[a]", "a string"),
        ] {
            let misfit = misfit(&object).unwrap();
            assert_eq!((misfit.field.as_str(), misfit.expected), (field, expected));
            assert!(misfit.message.starts_with("json: cannot unmarshal "), "{}", misfit.message);
        }
        assert_eq!(misfit(&json!({"spec": {"replicas": 2, "unknown": []}})), None);
    }

    #[test]
    fn values_print_in_the_order_of_their_types() {
        let worker = json!({"containers": [{"resources": {}, "image": "<i>", "name": "main"}]});
        assert_eq!(
            printed("spec.prefill.worker", &worker),
            r#"{"containers":[{"name":"main","image":"\u003ci\u003e","resources":{}}]}"#
        );
        assert_eq!(printed("spec.model.lora.adapters[1].name", &json!("a")), r#""a""#);
        assert_eq!(printed("spec.nowhere", &json!({"b": 1})), r#"{"b":1}"#);
    }
}
