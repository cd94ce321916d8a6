//! Remembers values for which a rule held.
//!
//! A managed route alone needs five hundred evaluations, and nearly all values occurred in earlier services too: a type of
//! filter, a number of matches, a well-known path.

use std::collections::HashSet;

use parking_lot::Mutex;
use serde_json::Value;

use super::{
    identifier::identifiers,
    shape::{Shape, ValueAccess},
};

/// The most values that are remembered per rule.
const MAX_ENTRIES: usize = 64;
/// The most bytes of a remembered value.
const MAX_ENTRY_BYTES: usize = 256;

/// The values for which the rule held, reduced to the parts that the rule reads.
#[derive(Debug, Default)]
pub(super) struct Memo {
    held: Mutex<HashSet<Box<[u8]>, ahash::RandomState>>,
}

// === impl Memo ===

impl Memo {
    /// Whether the rule held for a value with the same relevant parts.
    pub(super) fn contains(&self, key: &[u8]) -> bool {
        self.held.lock().contains(key)
    }

    /// Records that the rule held for a value with these parts.
    pub(super) fn insert(&self, key: &[u8]) {
        let mut held = self.held.lock();
        if held.len() >= MAX_ENTRIES {
            held.clear();
        }
        held.insert(key.into());
    }
}

/// Writes the parts of a value that a rule reads into `bytes`. If two values have the same bytes, the rule cannot tell them
/// apart. Returns false if there would be too many bytes; then `bytes` is incomplete.
pub(super) fn write_key(value: &Value, shape: &Shape, bytes: &mut Vec<u8>) -> bool {
    bytes.clear();
    write(value, ValueAccess::Into(shape), bytes)
}

/// Returns false if there are too many bytes.
fn write(value: &Value, look: ValueAccess<'_>, bytes: &mut Vec<u8>) -> bool {
    let ValueAccess::Into(shape) = look else {
        bytes.push(b'_');
        return true;
    };
    match value {
        Value::Array(items) => {
            bytes.push(b'[');
            for item in items {
                if !write(item, shape.items(), bytes) {
                    return false;
                }
            }
            bytes.push(b']');
        }
        Value::Object(map) => {
            bytes.push(b'{');
            for (name, value) in map {
                // A rule calls a key of a map by its name, and a field of the schema by one of its identifiers.
                let others = identifiers(name).filter(|identifier| identifier != name);
                for name in std::iter::once(name.into()).chain(others) {
                    let field = shape.field(&name);
                    if matches!(field, ValueAccess::Away) {
                        continue;
                    }
                    if !string(&name, bytes) || !write(value, field, bytes) {
                        return false;
                    }
                }
            }
            bytes.push(b'}');
        }
        Value::String(text) => return string(text, bytes),
        Value::Null => bytes.push(b'n'),
        Value::Bool(truth) => bytes.push(if *truth { b't' } else { b'f' }),
        Value::Number(number) => bytes.extend_from_slice(number.to_string().as_bytes()),
    }
    // Without a separator, two numbers in a list would read as one.
    bytes.push(b',');
    bytes.len() <= MAX_ENTRY_BYTES
}

/// Writes a string with its length as a prefix, so that no string looks like something else.
fn string(text: &str, bytes: &mut Vec<u8>) -> bool {
    let Ok(length) = u8::try_from(text.len()) else { return false };
    bytes.extend_from_slice(&[b'"', length]);
    bytes.extend_from_slice(text.as_bytes());
    bytes.len() <= MAX_ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::Program, write_key};
    use crate::cel::shape;

    fn text(rule: &str, value: &Value) -> Option<Vec<u8>> {
        let [shape] = shape::of(&Program::compile(rule).unwrap().runnable().expression, ["self"]);
        let mut bytes = b"of another value".to_vec();
        write_key(value, &shape, &mut bytes).then_some(bytes)
    }

    #[test]
    fn values_differ_where_the_rule_can_tell_and_only_there() {
        let (one, two) = (json!({"a": 1, "b": [1, 2]}), json!({"a": 1, "b": [3, 4]}));
        assert_eq!(
            text("self.a == 1 && self.b.size() > 1", &one),
            text("self.a == 1 && self.b.size() > 1", &two)
        );
        assert_ne!(text("self.b[0] == 1", &one), text("self.b[0] == 1", &two));
        assert_ne!(text("has(self.a)", &json!({})), text("has(self.a)", &one));
        assert_ne!(text("self.a", &json!({"a": "1"})), text("self.a", &json!({"a": 1})));
        assert_ne!(text("self", &json!(["a", "b"])), text("self", &json!(["a\",\"b"])));
        assert_ne!(
            text("self.a.namespace", &json!({"a": {"namespace": 1}})),
            text("self.a.namespace", &json!({"a": {}}))
        );
    }

    #[test]
    fn long_values_are_not_remembered() {
        assert_eq!(text("self", &json!("x".repeat(1000))), None);
        assert_eq!(text("self", &json!(vec![1; 1000])), None);
    }
}
