//! The JSON of a stored object. The store keeps a large object as text, and each reader parses it if it needs all of it.

use std::{
    ops::Deref,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use serde_json::{Map, Value};

use super::fragment;

/// The number of nodes from which an object counts as large: as a tree, such an object takes a megabyte or more. Definitions
/// of custom resources take twenty.
const LARGE_OBJECT_NODES: usize = 5_000;

/// The number of nodes from which a part of a large object is left out of its head.
const LARGE_PART_NODES: usize = 500;

/// The JSON of an object.
#[derive(Debug)]
pub struct Tree {
    tree: OnceLock<Value>,
    packed: Option<Arc<PackedTree>>,
}

#[derive(Debug)]
struct PackedTree {
    /// The object without its large fields and without the large fields of those.
    head: Value,
    /// All fields but `apiVersion` and `kind`, as [`fragment`] writes them.
    fragment: Bytes,
}

// === impl Tree ===

impl Tree {
    /// Returns the same object as text, if it is large and not packed yet.
    pub(super) fn to_packed(&self) -> Option<Self> {
        if self.packed.is_some() || !has_more_nodes(self, LARGE_OBJECT_NODES) {
            return None;
        }
        let packed = PackedTree { head: head(self, 1), fragment: fragment(self) };
        Some(Self { tree: OnceLock::new(), packed: Some(Arc::new(packed)) })
    }

    /// Returns a copy for one reader of a packed object. What the reader parses is freed with the copy.
    pub(super) fn to_unparsed(&self) -> Option<Self> {
        Some(Self { tree: OnceLock::new(), packed: Some(Arc::clone(self.packed.as_ref()?)) })
    }

    /// Returns what can be read of the object without parsing a large text: all of it but long lists and large objects that are
    /// fields of the object or of one of its fields, as `spec.versions` of a definition. Finalizers and owners are always there.
    pub fn head(&self) -> &Value {
        match &self.packed {
            Some(packed) => &packed.head,
            None => self,
        }
    }

    /// Returns the fields of a packed object as [`fragment`] writes them.
    pub(super) fn fragment(&self) -> Option<Bytes> {
        self.packed.as_ref().map(|packed| packed.fragment.clone())
    }
}

impl From<Value> for Tree {
    fn from(value: Value) -> Self {
        Self { tree: OnceLock::from(value), packed: None }
    }
}

impl Deref for Tree {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.tree.get_or_init(|| self.packed.as_deref().map(PackedTree::parsed).unwrap_or_default())
    }
}

// === impl PackedTree ===

impl PackedTree {
    fn parsed(&self) -> Value {
        let text = [b"{", &*self.fragment, b"}"].concat();
        // The text was written from fields, so it parses.
        let mut fields: Map<String, Value> = serde_json::from_slice(&text).unwrap_or_default();
        for name in ["apiVersion", "kind"] {
            if let Some(value) = self.head.get(name) {
                fields.insert(name.to_owned(), value.clone());
            }
        }
        Value::Object(fields)
    }
}

/// Copies an object without its large fields; `levels` below, the same holds for them.
fn head(value: &Value, levels: usize) -> Value {
    let fields = value.as_object().into_iter().flatten();
    let kept = fields.filter_map(|(name, value)| {
        let part = match value {
            // The garbage collector reads these.
            _ if matches!(&**name, "finalizers" | "ownerReferences") => value.clone(),
            _ if !has_more_nodes(value, LARGE_PART_NODES) => value.clone(),
            Value::Object(_) if levels > 0 => head(value, levels - 1),
            _ => return None,
        };
        Some((name.clone(), part))
    });
    Value::Object(kept.collect())
}

/// Whether a value has more nodes than this. Looks at no more of them than it must.
fn has_more_nodes(value: &Value, limit: usize) -> bool {
    fn fits(value: &Value, left: &mut usize) -> bool {
        if *left == 0 {
            return false;
        }
        *left -= 1;
        match value {
            Value::Array(items) => items.iter().all(|item| fits(item, left)),
            Value::Object(fields) => fields.values().all(|value| fits(value, left)),
            _ => true,
        }
    }
    !fits(value, &mut { limit })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_large_object_is_packed_and_read_again() {
        assert!(Tree::from(json!({"a": [1, 2, {"b": null}]})).to_packed().is_none());
        let versions: Vec<usize> = (0..LARGE_OBJECT_NODES).collect();
        let large = json!({"apiVersion": "v1", "kind": "Large", "metadata": {"name": "a", "finalizers": versions, "managedFields": versions},
            "spec": {"group": "b", "versions": versions}, "more": versions});
        let packed = Tree::from(large.clone()).to_packed().unwrap();
        let head = json!({"apiVersion": "v1", "kind": "Large", "metadata": {"name": "a", "finalizers": versions},
            "spec": {"group": "b"}});
        assert_eq!(*packed.head(), head);
        assert!(packed.tree.get().is_none(), "the head is there without parsing");
        assert_eq!(packed.fragment().unwrap(), fragment(&large));
        let reader = packed.to_unparsed().unwrap();
        assert_eq!(*reader, large);
        assert!(packed.tree.get().is_none(), "what a reader parses is its own");
        assert!(packed.to_packed().is_none());
    }
}
