//! What a rule has already been satisfied with.
//!
//! A managed route alone has five hundred evaluations, nearly all on values that the service before had as well: a kind of
//! filter, a number of matches, a well-known path.

use std::{collections::HashSet, fmt::Write as _};

use parking_lot::Mutex;
use serde_json::Value;

use super::{
    cel::escaped,
    cel_shape::{Look, Shape},
};

/// Values that are remembered for each rule.
const MOST: usize = 64;
/// Longest text of a value that is remembered.
const LONGEST: usize = 256;

/// The values, as far as the rule looks at them, with which it held.
#[derive(Debug, Default)]
pub(super) struct Memo {
    held: Mutex<HashSet<Box<str>>>,
}

// === impl Memo ===

impl Memo {
    /// Whether the rule held for a value of which it looks at the same.
    pub(super) fn knows(&self, seen: &str) -> bool {
        self.held.lock().contains(seen)
    }

    /// Remembers that the rule held.
    pub(super) fn note(&self, seen: &str) {
        let mut held = self.held.lock();
        if held.len() >= MOST {
            held.clear();
        }
        held.insert(seen.into());
    }
}

/// The part of a value that a rule looks at, as text: two values of the same text are the same to the rule. None where it
/// is long.
pub(super) fn seen(value: &Value, shape: &Shape) -> Option<String> {
    let mut text = String::new();
    write(value, Look::Into(shape), &mut text).then_some(text)
}

/// Whether it is short enough so far.
fn write(value: &Value, look: Look<'_>, text: &mut String) -> bool {
    let Look::Into(shape) = look else {
        text.push('_');
        return true;
    };
    match value {
        Value::Array(items) => {
            text.push('[');
            for item in items {
                if !write(item, shape.items(), text) {
                    return false;
                }
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(map) => {
            text.push('{');
            for (name, value) in map {
                // Which of both a rule says depends on the schema.
                let field = shape.field([name, &escaped(name)]);
                if matches!(field, Look::Away) {
                    continue;
                }
                if write!(text, "{name:?}:").is_err() || !write(value, field, text) {
                    return false;
                }
                text.push(',');
            }
            text.push('}');
        }
        Value::String(string) => {
            if string.len() > LONGEST || write!(text, "{string:?}").is_err() {
                return false;
            }
        }
        scalar => {
            if write!(text, "{scalar}").is_err() {
                return false;
            }
        }
    }
    text.len() <= LONGEST
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::cel::Program, seen};
    use crate::schema::cel_shape;

    fn text(rule: &str, value: &Value) -> Option<String> {
        let [shape] = cel_shape::of(&Program::compile(rule).unwrap().runnable().expression, ["self"]);
        seen(value, &shape)
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
