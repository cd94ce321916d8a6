//! The facts of a schema about each place, in a form in which Longboat's and KServe's schemas can be compared.

use std::collections::BTreeMap;

use serde_json::Value;

/// Facts by place: `.spec.model.uri`, `.spec.baseRefs[].name`, `.spec.labels{}`.
pub(super) type Facts = BTreeMap<String, BTreeMap<String, Value>>;

/// Keywords that are places themselves, or prose.
const STRUCTURE: [&str; 5] = ["description", "properties", "items", "additionalProperties", "required"];

/// Returns the facts of a schema and of everything below it. Skips what is below the places for which `stop` returns `true`.
pub(super) fn of(schema: &Value, stop: &dyn Fn(&str) -> bool) -> Facts {
    let mut facts = Facts::new();
    visit(schema, String::new(), false, stop, &mut facts);
    facts
}

fn visit(schema: &Value, place: String, required: bool, stop: &dyn Fn(&str) -> bool, facts: &mut Facts) {
    let object = schema.as_object().unwrap();
    let mut own: BTreeMap<String, Value> = object
        .iter()
        .filter(|(key, _)| !STRUCTURE.contains(&key.as_str()))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    own.insert("required".to_owned(), Value::Bool(required));
    if let Some(Value::Array(rules)) = own.get_mut("x-kubernetes-validations") {
        rules.sort_by_key(ToString::to_string);
    }
    if stop(&place) {
        own.insert("keys".to_owned(), keys(schema));
        own.insert("required below".to_owned(), object.get("required").cloned().unwrap_or_default());
        facts.insert(place, own);
        return;
    }
    let needed: Vec<&str> = object
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if let Some(Value::Object(properties)) = object.get("properties") {
        for (name, schema) in properties {
            let required = needed.contains(&name.as_str());
            visit(schema, format!("{place}.{name}"), required, stop, facts);
        }
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(schema) = object.get(key) {
            visit(schema, format!("{place}{mark}"), false, stop, facts);
        }
    }
    facts.insert(place, own);
}

/// Returns the names of an object's fields.
fn keys(schema: &Value) -> Value {
    let mut keys: Vec<_> =
        schema["properties"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect();
    keys.sort();
    keys.into()
}
