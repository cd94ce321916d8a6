//! References between Gateway API objects.

use serde::{Deserialize, Serialize};

use crate::wire;

/// A Gateway (or other parent) that a route attaches to.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ParentReference {
    /// API group of the parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,

    /// Kind of the parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,

    /// Namespace of the parent. Absent means that of the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,

    /// Name of the parent.
    #[serde(deserialize_with = "wire::null_default")]
    pub name: String,

    /// Listener of the parent. Absent means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,

    /// Listener port of the parent. Absent means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
}

/// Where a route sends requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendObjectReference {
    /// API group of the back end; empty for the core group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,

    /// Kind of the back end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,

    /// Name of the back end.
    #[serde(deserialize_with = "wire::null_default")]
    pub name: String,

    /// Namespace of the back end. Absent means that of the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,

    /// Port of the back end; needed for a Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
}

/// A Secret (or, in a list of CA certificates, a ConfigMap).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SecretObjectReference {
    /// API group of the object; empty for the core group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,

    /// Kind of the object. Absent means Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,

    /// Name of the object.
    #[serde(deserialize_with = "wire::null_default")]
    pub name: String,

    /// Namespace of the object. Absent means that of the object with the reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// An object in the namespace of the object with the reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalObjectReference {
    /// API group of the object; empty for the core group.
    #[serde(deserialize_with = "wire::null_default")]
    pub group: String,

    /// Kind of the object.
    #[serde(deserialize_with = "wire::null_default")]
    pub kind: String,

    /// Name of the object.
    #[serde(deserialize_with = "wire::null_default")]
    pub name: String,
}
