//! Fills in the defaults of a schema, and drops nulls that it does not allow.

use serde_json::Value;

use super::{
    size::{MAX_OBJECT_BYTES, size},
    structural::Node,
};

/// Fills in defaults, then drops nulls in fields that are neither nullable nor have a default. This is the reference's order.
pub(crate) fn default(object: &mut Value, schema: &Node) {
    fill(object, schema);
    // Objects rarely contain a null, and looking up the schema of each field would take longer.
    if has_null(object) {
        drop_nulls(object, schema);
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().any(has_null),
        Value::Array(items) => items.iter().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn wrong_null(value: &Value, schema: &Node) -> bool {
    value.is_null() && !schema.nullable
}

/// Fills in defaults, also in place of nulls that are not allowed. Stops at an object that its defaults make too large: a list of a
/// few kilobytes, with a long default in each item, would otherwise become gigabytes.
pub(crate) fn fill(value: &mut Value, schema: &Node) {
    Filler { bytes_left: MAX_OBJECT_BYTES }.fill(value, schema);
}

struct Filler {
    bytes_left: usize,
}

// === impl Filler ===

impl Filler {
    fn fill(&mut self, value: &mut Value, schema: &Node) {
        if !schema.below.defaults || self.bytes_left == 0 {
            return;
        }
        match value {
            Value::Object(map) => {
                for (name, child) in schema.properties.iter() {
                    let Some(default) = &child.default else { continue };
                    if map.get(name).is_none_or(|now| wrong_null(now, child)) {
                        map.insert(name.to_string(), self.copy(default));
                    }
                }
                // What was just filled in may lack fields that have defaults of their own.
                for (name, value) in map.iter_mut() {
                    let Some(child) = schema.field(name) else { continue };
                    self.fill_null(value, child);
                    self.fill(value, child);
                }
            }
            Value::Array(items) => {
                if let Some(child) = &schema.items {
                    for item in items {
                        self.fill_null(item, child);
                        self.fill(item, child);
                    }
                }
            }
            _ => {}
        }
    }

    fn fill_null(&mut self, value: &mut Value, schema: &Node) {
        if let Some(default) = &schema.default
            && wrong_null(value, schema)
            && self.bytes_left > 0
        {
            *value = self.copy(default);
        }
    }

    fn copy(&mut self, default: &Value) -> Value {
        self.bytes_left = self.bytes_left.saturating_sub(size(default));
        default.clone()
    }
}

fn drop_nulls(value: &mut Value, schema: &Node) {
    match value {
        Value::Object(map) => map.retain(|name, value| {
            let Some(child) = schema.field(name) else { return true };
            if wrong_null(value, child) {
                return false;
            }
            drop_nulls(value, child);
            true
        }),
        Value::Array(items) => {
            if let Some(child) = &schema.items {
                for item in items {
                    drop_nulls(item, child);
                }
            }
        }
        _ => {}
    }
}
