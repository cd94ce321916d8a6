//! What a service depends on, by kind and name.

use std::{fmt, sync::Arc};

use k8s_openapi::{Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use crate::kinds;

/// Namespace and name of an object; the namespace is empty for cluster-scoped kinds. Clones share the strings, because each key is
/// stored in many places.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

macro_rules! kind {
    ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {
        /// Kinds of what services depend on: kinds of objects, and indexes that several objects are found under.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            /// A service.
            InferenceService,
            /// A config, preset or not.
            Config,
            /// All services that share their traffic under that name.
            RoutingGroup,
            /// All services of a model of that name.
            ModelName,
            /// Any Service behind the Gateway of that name: found by label or by name.
            GatewayService,
            $($(#[$doc])* $kind,)*
        }
    };
}

kinds!(all kind);

/// One object of one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// What it is.
    pub kind: Kind,
    /// Where it is.
    pub key: Key,
}

// === impl Key ===

impl Key {
    /// From namespace and name.
    pub fn new(namespace: impl AsRef<str>, name: impl AsRef<str>) -> Self {
        Self { namespace: namespace.as_ref().into(), name: name.as_ref().into() }
    }

    /// From strings that exist already.
    pub fn shared(namespace: &Arc<str>, name: &Arc<str>) -> Self {
        Self { namespace: Arc::clone(namespace), name: Arc::clone(name) }
    }

    /// Of an object.
    pub fn of<K: Metadata<Ty = ObjectMeta>>(object: &K) -> Self {
        Self::of_metadata(object.metadata())
    }

    /// Of an object with this metadata.
    pub fn of_metadata(metadata: &ObjectMeta) -> Self {
        Self::new(
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
        )
    }

    /// The object of this name and that kind.
    pub fn of_kind(self, kind: Kind) -> ObjectKey {
        ObjectKey { kind, key: self }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
