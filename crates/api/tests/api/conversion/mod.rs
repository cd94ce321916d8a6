//! Tests of the conversion between the versions.

mod edits;
mod fixtures;
mod generate;
mod laws;
mod parts;
mod recordings;

use longboat_api::conversion::{Version, convert};
use serde_json::Value;

fn to(version: Version, object: &Value) -> Value {
    let mut object = object.clone();
    convert(&mut object, version).unwrap();
    object
}

fn down(object: &Value) -> Value {
    to(Version::V1Alpha1, object)
}

fn up(object: &Value) -> Value {
    to(Version::V1Alpha2, object)
}

/// Returns the differences of two objects: objects are large, and a test names few fields.
fn differences(left: &Value, right: &Value) -> Vec<String> {
    fn walk(path: &str, left: &Value, right: &Value, found: &mut Vec<String>) {
        match (left, right) {
            (Value::Object(left), Value::Object(right)) => {
                for key in left.keys().chain(right.keys().filter(|key| !left.contains_key(*key))) {
                    match (left.get(key), right.get(key)) {
                        (Some(left), Some(right)) => walk(&format!("{path}/{key}"), left, right, found),
                        (left, right) => found.push(format!("{path}/{key}: {left:?} and {right:?}")),
                    }
                }
            }
            _ if left == right => {}
            _ => found.push(format!("{path}: {left} and {right}")),
        }
    }
    let mut found = Vec::new();
    walk("", left, right, &mut found);
    found
}
