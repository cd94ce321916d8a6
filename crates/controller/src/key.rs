//! Keys of objects.

use std::{fmt, sync::Arc};

use k8s_openapi::{Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};

/// Namespace and name of an object; the namespace is empty for cluster-scoped kinds. Clones share the strings, because each key is
/// stored in many places.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

/// Kinds that services depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    InferenceService,
    /// All services that share their traffic under that name.
    RoutingGroup,
    /// All services of a model of that name.
    ModelName,
    Config,
    ConfigMap,
    Secret,
    ServiceAccount,
    Service,
    /// Any Service behind the Gateway of that name: found by label or by name.
    GatewayService,
    Deployment,
    Pod,
    Role,
    RoleBinding,
    ClusterRoleBinding,
    ResourceClaimTemplate,
    LeaderWorkerSet,
    HorizontalPodAutoscaler,
    ScaledObject,
    HttpRoute,
    InferencePool,
    InferencePoolX,
    Gateway,
    GatewayClass,
}

/// One object of one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectKey {
    pub(crate) kind: Kind,
    pub(crate) key: Key,
}

// === impl Key ===

impl Key {
    pub(crate) fn new(namespace: impl AsRef<str>, name: impl AsRef<str>) -> Self {
        Self { namespace: namespace.as_ref().into(), name: name.as_ref().into() }
    }

    /// From strings that exist already.
    pub(crate) fn shared(namespace: &Arc<str>, name: &Arc<str>) -> Self {
        Self { namespace: Arc::clone(namespace), name: Arc::clone(name) }
    }

    pub(crate) fn of<K: Metadata<Ty = ObjectMeta>>(object: &K) -> Self {
        Self::of_metadata(object.metadata())
    }

    pub(crate) fn of_metadata(metadata: &ObjectMeta) -> Self {
        Self::new(
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
        )
    }

    pub(crate) fn of_kind(self, kind: Kind) -> ObjectKey {
        ObjectKey { kind, key: self }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
