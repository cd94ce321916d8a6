//! JSON schemas as a small model can keep to them.

use serde_json::{Map, Value, json};

/// White space of JSON in one place: a small model may otherwise go on with spaces until its answer ends.
const WHITESPACE: &str = r"[\x20\x0A\x0D\x09]{1,20}";

/// A schema that a small model can complete: with little white space, and with no properties but those that it names, where it
/// leaves this open.
pub(super) fn bounded(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if !joins_objects(&schema) {
        close(&mut schema);
    }
    if let Value::Object(map) = &mut schema {
        map.insert("x-guidance".into(), json!({"whitespace_pattern": WHITESPACE}));
    }
    schema
}

/// Whether an object must match several schemas, each of which names some of its properties.
fn joins_objects(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => {
            let joins = |word: &&str| map.contains_key(*word);
            joins(&"allOf")
                || (map.contains_key("properties") && ["anyOf", "oneOf", "$ref"].iter().any(joins))
                || map.values().any(joins_objects)
        }
        Value::Array(items) => items.iter().any(joins_objects),
        _ => false,
    }
}

fn close(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            let values = ["const", "enum", "default", "examples"];
            map.iter_mut()
                .filter(|(word, _)| !values.contains(&word.as_str()))
                .for_each(|(_, inner)| close(inner));
            if map.get("properties").is_some_and(Value::is_object) && !map.contains_key("patternProperties") {
                map.entry("additionalProperties").or_insert(Value::Bool(false));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

/// The schema of a tool's arguments. They are always an object, even if the schema does not say so.
pub(super) fn object(parameters: &Value) -> Result<Value, String> {
    let mut map = match parameters {
        Value::Object(map) => map.clone(),
        Value::Bool(true) => Map::new(),
        _ => return Err("no value matches this schema".into()),
    };
    let allows_objects = match map.get("type") {
        None => true,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(kind) => kind == "object",
    };
    if !allows_objects {
        return Err("arguments are an object, and this schema allows only other values".into());
    }
    map.insert("type".into(), "object".into());
    Ok(map.into())
}
