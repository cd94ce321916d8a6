//! Identifies objects.

use std::{fmt, sync::Arc};

use k8s_openapi::{Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};

/// Namespace and name of an object; the namespace is empty for cluster-scoped kinds. Clones share the strings, because each key is
/// stored in many places.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

/// One object of one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey<K> {
    /// The kind of the object.
    pub kind: K,
    /// The namespace and name of the object.
    pub key: Key,
}

// === impl Key ===

impl Key {
    /// Creates a key from namespace and name.
    pub fn new(namespace: impl AsRef<str>, name: impl AsRef<str>) -> Self {
        Self { namespace: namespace.as_ref().into(), name: name.as_ref().into() }
    }

    /// Creates a key that shares existing strings.
    pub fn shared(namespace: &Arc<str>, name: &Arc<str>) -> Self {
        Self { namespace: Arc::clone(namespace), name: Arc::clone(name) }
    }

    /// The key of an object.
    pub fn of<K: Metadata<Ty = ObjectMeta>>(object: &K) -> Self {
        Self::of_metadata(object.metadata())
    }

    /// The key of an object with this metadata.
    pub fn of_metadata(metadata: &ObjectMeta) -> Self {
        Self::new(
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
        )
    }

    /// Adds a kind.
    pub fn of_kind<K>(self, kind: K) -> ObjectKey<K> {
        ObjectKey { kind, key: self }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            return f.write_str(&self.name);
        }
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl<K: fmt::Display> fmt::Display for ObjectKey<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.key)
    }
}
