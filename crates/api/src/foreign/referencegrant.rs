//! ReferenceGrant, `gateway.networking.k8s.io/v1beta1`: the version that every release of the Gateway API serves.

use serde::{Deserialize, Serialize};

use crate::resource::kind;
use crate::wire;

kind! {
    /// A ReferenceGrant: which objects of other namespaces may refer to objects of its namespace.
    pub struct ReferenceGrant: "gateway.networking.k8s.io", "v1beta1", "referencegrants", Namespaced {
        spec: ReferenceGrantSpec,
        status: serde_json::Value,
    }
}

/// Which references are permitted: each of `from` to each of `to`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReferenceGrantSpec {
    /// Objects with references.
    #[serde(deserialize_with = "wire::null_default")]
    pub from: Vec<ReferenceGrantFrom>,

    /// Objects that they may refer to.
    #[serde(deserialize_with = "wire::null_default")]
    pub to: Vec<ReferenceGrantTo>,
}

/// Objects of one kind and namespace, which have references.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReferenceGrantFrom {
    /// API group of the objects; empty for the core group.
    #[serde(deserialize_with = "wire::null_default")]
    pub group: String,

    /// Kind of the objects.
    #[serde(deserialize_with = "wire::null_default")]
    pub kind: String,

    /// Namespace of the objects.
    #[serde(deserialize_with = "wire::null_default")]
    pub namespace: String,
}

/// Objects of one kind in the namespace of the grant, to which references are permitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReferenceGrantTo {
    /// API group of the objects; empty for the core group.
    #[serde(deserialize_with = "wire::null_default")]
    pub group: String,

    /// Kind of the objects.
    #[serde(deserialize_with = "wire::null_default")]
    pub kind: String,

    /// Name of the only object. Absent means all objects of the kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
