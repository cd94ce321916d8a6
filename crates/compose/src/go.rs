//! How the reference's Go types decode and print values: for messages that show values, and for values of the wrong type.

use longboat_template::reflect::{Struct, Ty};
use serde_json::Value;

pub use crate::codec::TypeMismatch;
use crate::{codec, schema};

/// Returns the first value of a service that Go's decoder refuses. The object may also be a config, which has the same types
/// in its metadata and spec.
pub fn misfit(object: &Value) -> Option<TypeMismatch> {
    if fits(schema::TYPES.service, object) {
        return None;
    }
    codec::decode(schema::TYPES.service, object.clone()).err()
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

/// Whether all values fit, so that decoding succeeds. This takes half as long, because it visits only the fields that are present.
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
