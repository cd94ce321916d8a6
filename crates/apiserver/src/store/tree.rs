//! The JSON of a stored object. A large object that was replaced is kept as text, which is parsed again on demand.

use std::{ops::Deref, sync::OnceLock};

use serde_json::Value;

/// The number of nodes from which an object counts as large: as a tree, such an object takes a megabyte or more.
const LARGE_OBJECT_NODES: usize = 5_000;

/// The JSON of an object.
#[derive(Debug)]
pub struct Tree {
    tree: OnceLock<Value>,
    text: Vec<u8>,
}

// === impl Tree ===

impl Tree {
    /// Returns the same object as text, if it is large: replaced objects are rarely read.
    pub(super) fn packed(&self) -> Option<Self> {
        let mut left = LARGE_OBJECT_NODES;
        if !self.text.is_empty() || count(self, &mut left) {
            return None;
        }
        Some(Self { tree: OnceLock::new(), text: serde_json::to_vec(&**self).ok()? })
    }
}

impl From<Value> for Tree {
    fn from(value: Value) -> Self {
        Self { tree: OnceLock::from(value), text: Vec::new() }
    }
}

impl Deref for Tree {
    type Target = Value;

    fn deref(&self) -> &Value {
        // the text was written from a tree, so it parses
        self.tree.get_or_init(|| serde_json::from_slice(&self.text).unwrap_or_default())
    }
}

/// Counts the nodes of `value` down from `left`. Returns `false` if `left` reaches zero first.
fn count(value: &Value, left: &mut usize) -> bool {
    if *left == 0 {
        return false;
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter().all(|item| count(item, left)),
        Value::Object(fields) => fields.values().all(|value| count(value, left)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_large_object_is_packed_and_read_again() {
        let small = json!({"a": [1, 2, {"b": null}]});
        assert!(Tree::from(small).packed().is_none());
        let large = json!({"a": (0..LARGE_OBJECT_NODES).collect::<Vec<_>>()});
        let packed = Tree::from(large.clone()).packed().unwrap();
        assert_eq!(*packed, large);
        assert!(packed.packed().is_none());
    }
}
