//! What a rule has already been satisfied with.
//!
//! A managed route alone has five hundred evaluations, nearly all on values that the service before had as well: a kind of
//! filter, a number of matches, a well-known path.

use std::collections::HashSet;

use parking_lot::Mutex;
use serde_json::Value;

use super::{
    cel_shape::{Look, Shape},
    cel_value::escaped,
};

/// Values that are remembered for each rule.
const MOST: usize = 64;
/// Most bytes of a value that is remembered.
const LONGEST: usize = 256;

/// The values, as far as the rule looks at them, with which it held.
#[derive(Debug, Default)]
pub(super) struct Memo {
    held: Mutex<HashSet<Box<[u8]>, ahash::RandomState>>,
}

// === impl Memo ===

impl Memo {
    /// Whether the rule held for a value of which it looks at the same.
    pub(super) fn knows(&self, seen: &[u8]) -> bool {
        self.held.lock().contains(seen)
    }

    /// Remembers that the rule held.
    pub(super) fn note(&self, seen: &[u8]) {
        let mut held = self.held.lock();
        if held.len() >= MOST {
            held.clear();
        }
        held.insert(seen.into());
    }
}

/// Puts the part of a value that a rule looks at in place of `bytes`: two values of the same bytes are the same to the rule.
/// False where there would be too many; then they say nothing.
pub(super) fn seen(value: &Value, shape: &Shape, bytes: &mut Vec<u8>) -> bool {
    bytes.clear();
    write(value, Look::Into(shape), bytes)
}

/// Whether they are few so far.
fn write(value: &Value, look: Look<'_>, bytes: &mut Vec<u8>) -> bool {
    let Look::Into(shape) = look else {
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
                // Which of both a rule says depends on the schema.
                let field = shape.field([name, &escaped(name)]);
                if matches!(field, Look::Away) {
                    continue;
                }
                if !string(name, bytes) || !write(value, field, bytes) {
                    return false;
                }
            }
            bytes.push(b'}');
        }
        Value::String(text) => return string(text, bytes),
        Value::Null => bytes.push(b'n'),
        Value::Bool(truth) => bytes.push(if *truth { b't' } else { b'f' }),
        Value::Number(number) => bytes.extend_from_slice(number.to_string().as_bytes()),
    }
    // Two numbers in a list would read as one.
    bytes.push(b',');
    bytes.len() <= LONGEST
}

/// A text with its length before it, so that no text can look like something else.
fn string(text: &str, bytes: &mut Vec<u8>) -> bool {
    let Ok(length) = u8::try_from(text.len()) else { return false };
    bytes.extend_from_slice(&[b'"', length]);
    bytes.extend_from_slice(text.as_bytes());
    bytes.len() <= LONGEST
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::cel::Program, seen};
    use crate::cel_shape;

    fn text(rule: &str, value: &Value) -> Option<Vec<u8>> {
        let [shape] = cel_shape::of(&Program::compile(rule).unwrap().runnable().expression, ["self"]);
        let mut bytes = b"of another value".to_vec();
        seen(value, &shape, &mut bytes).then_some(bytes)
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
