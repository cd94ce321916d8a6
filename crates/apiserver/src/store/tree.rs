//! The JSON of a stored object. The store keeps an object that is not small as compressed text, and each reader parses it if it
//! needs all of it.

use std::{
    ops::Deref,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use longboat_schema::size;
use lz4_flex::block::{compress_prepend_size, decompress_size_prepended, uncompressed_size};
use serde_json::{Map, Value};

/// The number of nodes above which an object is packed. A tree takes about 150 bytes a node: a pod of 560 nodes takes 84 KB,
/// and packed 12 KB. Definitions of custom resources take megabytes.
const MAX_TREE_NODES: usize = 200;

/// The number of nodes above which a part of a packed object is left out of its head.
const MAX_HEAD_PART_NODES: usize = 40;

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
    /// All fields but `apiVersion` and `kind` as JSON text, with the outer braces.
    text: Box<[u8]>,
}

// === impl Tree ===

impl Tree {
    /// Returns the same object as compressed text, if it is neither small nor packed yet. `fragment` returns its fields as
    /// [`fragment`](super::fragment) writes them.
    pub(super) fn to_packed(&self, fragment: impl FnOnce() -> Bytes) -> Option<Self> {
        if self.packed.is_some() || !has_more_nodes(self, MAX_TREE_NODES) {
            return None;
        }
        let text = [b"{", &*fragment(), b"}"].concat();
        let packed =
            PackedTree { head: head(self, 1), text: compress_prepend_size(&text).into_boxed_slice() };
        Some(Self { tree: OnceLock::new(), packed: Some(Arc::new(packed)) })
    }

    /// Returns a copy for one reader of a packed object. What the reader parses is freed with the copy.
    pub(super) fn to_unparsed(&self) -> Option<Self> {
        Some(Self { tree: OnceLock::new(), packed: Some(Arc::clone(self.packed.as_ref()?)) })
    }

    /// Returns what can be read of the object without parsing its text: all of it but long lists and large objects that are
    /// fields of the object or of one of its fields, as `spec.versions` of a definition. What is no list and no object is there,
    /// if its path has one or two names; labels, finalizers and owners are always there.
    pub fn head(&self) -> &Value {
        match &self.packed {
            Some(packed) => &packed.head,
            None => self,
        }
    }

    /// Returns roughly how much memory the object takes: its length as JSON, or that of its compressed text.
    pub(super) fn bytes(&self) -> usize {
        self.packed.as_ref().map_or_else(|| size(self), |packed| size(&packed.head) + packed.text.len())
    }

    /// Returns the length of the object as JSON.
    pub(super) fn json_bytes(&self) -> usize {
        match &self.packed {
            Some(packed) => uncompressed_size(&packed.text).map_or(0, |(bytes, _)| bytes),
            None => size(self),
        }
    }

    /// Returns the fields of a packed object as [`fragment`](super::fragment) writes them.
    pub(super) fn fragment(&self) -> Option<Bytes> {
        let text = Bytes::from(self.packed.as_ref()?.text());
        Some(text.slice(1..text.len() - 1))
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
    fn text(&self) -> Vec<u8> {
        decompress_size_prepended(&self.text).expect("`to_packed` compressed it")
    }

    fn parsed(&self) -> Value {
        // The text was written from fields, so it parses.
        let mut fields: Map<String, Value> = serde_json::from_slice(&self.text()).unwrap_or_default();
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
            // Selectors and the garbage collector read these.
            _ if matches!(&**name, "labels" | "finalizers" | "ownerReferences") => value.clone(),
            _ if !has_more_nodes(value, MAX_HEAD_PART_NODES) => value.clone(),
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

    use super::{super::fragment, *};

    #[test]
    fn an_object_is_packed_and_read_again() {
        let small = Tree::from(json!({"a": [1, 2, {"b": null}]}));
        assert!(small.to_packed(|| fragment(&small)).is_none());
        let long: Vec<usize> = (0..MAX_TREE_NODES).collect();
        let labels: Map<String, Value> = (0..MAX_TREE_NODES).map(|i| (i.to_string(), json!("a"))).collect();
        let value = json!({"apiVersion": "v1", "kind": "Large",
            "metadata": {"name": "a", "labels": labels, "finalizers": long, "managedFields": long},
            "spec": {"nodeName": "b", "versions": long}, "more": long});
        let tree = Tree::from(value.clone());
        let packed = tree.to_packed(|| fragment(&tree)).unwrap();
        let head = json!({"apiVersion": "v1", "kind": "Large",
            "metadata": {"name": "a", "labels": labels, "finalizers": long}, "spec": {"nodeName": "b"}});
        assert_eq!(*packed.head(), head);
        assert!(
            packed.bytes() < tree.bytes() && tree.bytes() - packed.json_bytes() < 50,
            "without version and kind"
        );
        assert_eq!(packed.fragment().unwrap(), fragment(&value));
        let reader = packed.to_unparsed().unwrap();
        assert_eq!(*reader, value);
        assert!(packed.tree.get().is_none(), "what a reader parses is its own");
        assert!(packed.to_packed(|| unreachable!("it is packed")).is_none());
    }
}
