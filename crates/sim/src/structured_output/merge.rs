//! Merges two schemas into one that requires both, as far as their keywords can be merged.

use serde_json::{Map, Value, json};

/// Returns a schema for the values that match both schemas.
pub(super) fn both(left: &Value, right: &Value) -> Result<Value, String> {
    let (Value::Object(left), Value::Object(right)) = (left, right) else {
        return match (left, right) {
            (Value::Bool(true), schema) | (schema, Value::Bool(true)) => Ok(schema.clone()),
            (Value::Bool(false), _) | (_, Value::Bool(false)) => Ok(Value::Bool(false)),
            _ => Err("a schema must be an object, true or false".to_owned()),
        };
    };
    let mut merged = left.clone();
    for (key, value) in right {
        let joined = match merged.get(key) {
            None => value.clone(),
            Some(same) if same == value => continue,
            Some(before) => join(key, before, value)?,
        };
        merged.insert(key.clone(), joined);
    }
    Ok(Value::Object(merged))
}

fn join(key: &str, left: &Value, right: &Value) -> Result<Value, String> {
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    match (key, left, right) {
        ("properties" | "$defs" | "definitions", Value::Object(left), Value::Object(right)) => {
            let mut joined: Map<String, Value> = left.clone();
            for (name, schema) in right {
                let schema = match joined.get(name) {
                    Some(before) if before != schema => json!({"allOf": [before, schema]}),
                    _ => schema.clone(),
                };
                joined.insert(name.clone(), schema);
            }
            Ok(Value::Object(joined))
        }
        ("required", Value::Array(left), Value::Array(right)) => {
            let further = right.iter().filter(|name| !left.contains(name)).cloned();
            Ok(left.iter().cloned().chain(further).collect())
        }
        ("enum", Value::Array(left), Value::Array(right)) => {
            Ok(left.iter().filter(|value| right.contains(value)).cloned().collect())
        }
        ("type", _, _) => {
            let names = |value: &Value| match value {
                Value::Array(list) => list.clone(),
                name => vec![name.clone()],
            };
            let (left, right) = (names(left), names(right));
            let has = |list: &[Value], name: &str| list.iter().any(|listed| listed == name);
            // Every integer is a number.
            let common = left.iter().filter_map(|name| {
                if right.contains(name) || (name == "integer" && has(&right, "number")) {
                    Some(name.clone())
                } else {
                    (name == "number" && has(&right, "integer")).then(|| "integer".into())
                }
            });
            Ok(common.collect::<Vec<_>>().into())
        }
        ("minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties", _, _) => {
            Ok(if number(left) >= number(right) { left.clone() } else { right.clone() })
        }
        ("maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties", _, _) => {
            Ok(if number(left) <= number(right) { left.clone() } else { right.clone() })
        }
        ("items" | "additionalProperties", _, _) => Ok(json!({"allOf": [left, right]})),
        ("uniqueItems", _, _) => Ok((left == true || right == true).into()),
        ("allOf", Value::Array(left), Value::Array(right)) => Ok(left.iter().chain(right).cloned().collect()),
        // These keywords are annotations and do not restrict values.
        (
            "title" | "description" | "default" | "examples" | "$comment" | "$id" | "$schema" | "deprecated",
            _,
            _,
        ) => Ok(left.clone()),
        _ => {
            let key: String = key.chars().take(40).collect();
            Err(format!("two different `{key}` for the same value are not simulated"))
        }
    }
}
