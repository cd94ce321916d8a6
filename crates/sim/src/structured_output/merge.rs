//! Merges two schemas into one that requires both, as far as their keywords can be merged.

use serde_json::{Map, Value, json};

/// Returns a schema for the values that match both schemas.
pub(super) fn both(one: &Value, other: &Value) -> Result<Value, String> {
    let (Value::Object(one), Value::Object(other)) = (one, other) else {
        return match (one, other) {
            (Value::Bool(true), schema) | (schema, Value::Bool(true)) => Ok(schema.clone()),
            (Value::Bool(false), _) | (_, Value::Bool(false)) => Ok(Value::Bool(false)),
            _ => Err("a schema must be an object, true or false".to_owned()),
        };
    };
    let mut merged = one.clone();
    for (key, value) in other {
        let joined = match merged.get(key) {
            None => value.clone(),
            Some(same) if same == value => continue,
            Some(before) => join(key, before, value)?,
        };
        merged.insert(key.clone(), joined);
    }
    Ok(Value::Object(merged))
}

fn join(key: &str, one: &Value, other: &Value) -> Result<Value, String> {
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    match (key, one, other) {
        ("properties" | "$defs" | "definitions", Value::Object(one), Value::Object(other)) => {
            let mut joined: Map<String, Value> = one.clone();
            for (name, schema) in other {
                let schema = match joined.get(name) {
                    Some(before) if before != schema => json!({"allOf": [before, schema]}),
                    _ => schema.clone(),
                };
                joined.insert(name.clone(), schema);
            }
            Ok(Value::Object(joined))
        }
        ("required", Value::Array(one), Value::Array(other)) => {
            let more = other.iter().filter(|name| !one.contains(name)).cloned();
            Ok(one.iter().cloned().chain(more).collect())
        }
        ("enum", Value::Array(one), Value::Array(other)) => {
            Ok(one.iter().filter(|value| other.contains(value)).cloned().collect())
        }
        ("type", _, _) => {
            let names = |value: &Value| match value {
                Value::Array(list) => list.clone(),
                name => vec![name.clone()],
            };
            let (one, other) = (names(one), names(other));
            let has = |list: &[Value], name: &str| list.iter().any(|listed| listed == name);
            // Every integer is a number.
            let common = one.iter().filter_map(|name| {
                if other.contains(name) || (name == "integer" && has(&other, "number")) {
                    Some(name.clone())
                } else {
                    (name == "number" && has(&other, "integer")).then(|| "integer".into())
                }
            });
            Ok(common.collect::<Vec<_>>().into())
        }
        ("minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties", _, _) => {
            Ok(if number(one) >= number(other) { one.clone() } else { other.clone() })
        }
        ("maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties", _, _) => {
            Ok(if number(one) <= number(other) { one.clone() } else { other.clone() })
        }
        ("items" | "additionalProperties", _, _) => Ok(json!({"allOf": [one, other]})),
        ("uniqueItems", _, _) => Ok((one == true || other == true).into()),
        ("allOf", Value::Array(one), Value::Array(other)) => Ok(one.iter().chain(other).cloned().collect()),
        // These keywords are annotations and do not restrict values.
        (
            "title" | "description" | "default" | "examples" | "$comment" | "$id" | "$schema" | "deprecated",
            _,
            _,
        ) => Ok(one.clone()),
        _ => {
            let key: String = key.chars().take(40).collect();
            Err(format!("two different `{key}` for the same value are not simulated"))
        }
    }
}
