//! A stored object, and its key.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use serde_json::Value;

use super::tree::Tree;

/// The position of an object in its table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Object name.
    pub name: String,
}

/// A stored object: immutable, shared by lists and watches.
#[derive(Debug)]
pub struct StoredObject {
    /// The object in its storage version, `metadata.resourceVersion` included.
    pub value: Tree,
    /// Revision of its last write.
    pub revision: u64,
    fragment: OnceLock<Bytes>,
    /// Stamp of the schema whose defaults the object is known to have.
    defaulted: Arc<AtomicU64>,
}

// === impl Key ===

impl Key {
    /// Returns the key of an object from its metadata.
    pub fn of(object: &Value) -> Self {
        let part = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
        Self { namespace: part("namespace"), name: part("name") }
    }

    /// Creates a key from its parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

// === impl StoredObject ===

impl StoredObject {
    pub(super) fn new(mut value: Value, revision: u64) -> Self {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), Value::from(revision.to_string()));
        }
        Self { value: Tree::from(value), revision, fragment: OnceLock::new(), defaulted: Arc::default() }
    }

    /// Returns the same object at another revision.
    #[must_use]
    pub fn at(&self, revision: u64) -> Self {
        Self::new(self.value.clone(), revision)
    }

    /// Returns the form in which the store keeps an object: as compressed text unless it is small.
    pub(super) fn kept(self: &Arc<Self>) -> Arc<Self> {
        let packed = self.value.to_packed(|| self.fragment());
        packed.map_or_else(|| Arc::clone(self), |value| Arc::new(self.with(value)))
    }

    /// Returns the form in which a reader gets a kept object: if it is text, what the reader parses is its own, and is freed with it.
    pub(crate) fn for_reader(self: &Arc<Self>) -> Arc<Self> {
        self.value.to_unparsed().map_or_else(|| Arc::clone(self), |value| Arc::new(self.with(value)))
    }

    /// Returns this object in another version, or with more defaults, in the form in which the store keeps objects.
    pub(crate) fn converted(&self, value: Value) -> Arc<Self> {
        Arc::new(self.with(Tree::from(value))).kept()
    }

    fn with(&self, value: Tree) -> Self {
        let defaulted = Arc::clone(&self.defaulted);
        Self { value, revision: self.revision, fragment: OnceLock::new(), defaulted }
    }

    /// Returns the metadata without long lists and maps. Labels, finalizers and owners are always there.
    pub fn metadata(&self) -> &Value {
        &self.value.head()["metadata"]
    }

    /// Returns the length of the object as JSON, without parsing it.
    pub fn json_bytes(&self) -> usize {
        self.value.json_bytes()
    }

    /// Whether the object is known to have all defaults of the schema with this stamp.
    pub(crate) fn has_defaults_of(&self, stamp: u64) -> bool {
        self.defaulted.load(Ordering::Relaxed) == stamp
    }

    /// Records that the object has all defaults of the schema with this stamp.
    pub(crate) fn mark_defaults_of(&self, stamp: u64) {
        self.defaulted.store(stamp, Ordering::Relaxed);
    }

    /// Returns the fields of the object as JSON text without the outer braces, `apiVersion` and `kind`; lists of built-in
    /// kinds omit those two. The text is encoded once.
    pub fn fragment(&self) -> Bytes {
        self.fragment.get_or_init(|| self.value.fragment().unwrap_or_else(|| fragment(&self.value))).clone()
    }
}

/// Like [`StoredObject::fragment`], for any value.
pub fn fragment(value: &Value) -> Bytes {
    let mut out = Vec::new();
    for (key, value) in value.as_object().into_iter().flatten() {
        if key == "apiVersion" || key == "kind" {
            continue;
        }
        if !out.is_empty() {
            out.push(b',');
        }
        // writing to memory cannot fail, and a JSON value can always be written as JSON
        if serde_json::to_writer(&mut out, key).is_ok() {
            out.push(b':');
            let _ = serde_json::to_writer(&mut out, value);
        }
    }
    Bytes::from(out)
}
