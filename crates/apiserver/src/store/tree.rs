//! The JSON of a stored object. A large object that is rarely read is kept as text, which is parsed again on demand.

use std::{ops::Deref, sync::OnceLock};

use bytes::Bytes;
use serde_json::Value;

/// The number of nodes from which an object counts as large: as a tree, such an object takes a megabyte or more.
const LARGE_OBJECT_NODES: usize = 5_000;

/// The JSON of an object.
#[derive(Debug)]
pub struct Tree {
    tree: OnceLock<Value>,
    /// Empty, if the object was never text.
    text: Bytes,
}

// === impl Tree ===

impl Tree {
    /// Whether the object is large.
    pub(super) fn is_large(&self) -> bool {
        !self.text.is_empty() || !count(self, &mut LARGE_OBJECT_NODES.clone())
    }

    /// Returns the same object as text. Returns `None` if it is not large, or if it is nothing but text already.
    pub(super) fn packed(&self) -> Option<Self> {
        let tree = self.tree.get().filter(|_| self.is_large())?;
        let text =
            if self.text.is_empty() { serde_json::to_vec(tree).ok()?.into() } else { self.text.clone() };
        Some(Self { tree: OnceLock::new(), text })
    }

    /// Returns another copy of an object that is nothing but text.
    pub(super) fn text_copy(&self) -> Option<Self> {
        let is_text = self.tree.get().is_none();
        is_text.then(|| Self { tree: OnceLock::new(), text: self.text.clone() })
    }

    /// Reads the object without keeping a tree that was not there before.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Value) -> T) -> T {
        match self.tree.get() {
            Some(tree) => read(tree),
            None => read(&self.parse()),
        }
    }

    fn parse(&self) -> Value {
        // the text was written from a tree, so it parses
        serde_json::from_slice(&self.text).unwrap_or_default()
    }
}

impl From<Value> for Tree {
    fn from(value: Value) -> Self {
        Self { tree: OnceLock::from(value), text: Bytes::new() }
    }
}

impl Deref for Tree {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.tree.get_or_init(|| self.parse())
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
        assert!(packed.read(|value| *value == large));
        assert!(packed.packed().is_none());
        assert_eq!(*packed, large);
        // Now it has a tree, of which it can be rid again.
        assert!(packed.packed().unwrap().packed().is_none());
    }
}
