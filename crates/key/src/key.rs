//! Identifies objects.

use std::fmt;

use k8s_openapi::{Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use crate::text::{Name, Namespace};

/// Namespace and name of an object; the namespace is empty for cluster-scoped kinds. Clones share the strings, because each
/// key is stored in many places.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace.
    pub namespace: Namespace,
    /// The name.
    pub name: Name,
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
    pub fn new(namespace: Namespace<&str>, name: Name<&str>) -> Self {
        Self { namespace: namespace.to_shared(), name: name.to_shared() }
    }

    /// The key of an object.
    pub fn of<K: Metadata<Ty = ObjectMeta>>(object: &K) -> Self {
        Self::of_metadata(object.metadata())
    }

    /// The key of an object with this metadata.
    pub fn of_metadata(metadata: &ObjectMeta) -> Self {
        Self::new(Namespace::of(metadata), Name::of(metadata))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_scoped_object_is_shown_without_a_namespace() {
        let key = |namespace| Key::new(Namespace(namespace), Name("a"));
        assert_eq!((key("").to_string(), key("ns").to_string()), ("a".to_owned(), "ns/a".to_owned()));
        assert_eq!(key("ns").of_kind("Pod").to_string(), "Pod ns/a");
    }
}
