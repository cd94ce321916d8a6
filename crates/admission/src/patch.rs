//! The difference between an object and its defaulted form, as a JSON patch (RFC 6902).

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

/// Returns the operations that turn `from` into `to`. Objects are compared by field, lists of equal length by element.
/// Everything else that differs is replaced.
pub fn difference(from: &Value, to: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    compare(&mut String::new(), from, to, &mut operations);
    operations
}

/// A patch in the encoding of reviews.
pub(crate) fn encoded(operations: &[Value]) -> String {
    BASE64_STANDARD.encode(serde_json::to_vec(operations).unwrap_or_default())
}

fn compare(path: &mut String, from: &Value, to: &Value, operations: &mut Vec<Value>) {
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => {
            for (key, _) in from.iter().filter(|(key, _)| !to.contains_key(*key)) {
                within(path, &escaped(key), |path| operations.push(json!({"op": "remove", "path": path})));
            }
            for (key, value) in to {
                within(path, &escaped(key), |path| match from.get(key) {
                    Some(before) => compare(path, before, value, operations),
                    None => operations.push(json!({"op": "add", "path": path, "value": value})),
                });
            }
        }
        (Value::Array(from), Value::Array(to)) if from.len() == to.len() => {
            for (i, (from, to)) in from.iter().zip(to).enumerate() {
                within(path, &i.to_string(), |path| compare(path, from, to, operations));
            }
        }
        _ if from != to => operations.push(json!({"op": "replace", "path": path, "value": to})),
        _ => {}
    }
}

/// Runs `f` with the path extended by one step.
fn within(path: &mut String, step: &str, f: impl FnOnce(&mut String)) {
    let before = path.len();
    path.push('/');
    path.push_str(step);
    f(path);
    path.truncate(before);
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
