//! References between Gateway API objects.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{cel, schema, wire};

/// A Gateway (or other parent) that a route attaches to.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ParentReference {
    /// API group of the parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::group", extend("x-default" = "gateway.networking.k8s.io"))]
    pub group: Option<String>,

    /// Kind of the parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::kind", extend("x-default" = "Gateway"))]
    pub kind: Option<String>,

    /// Namespace of the parent. Absent means that of the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::namespace")]
    pub namespace: Option<String>,

    /// Name of the parent.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::object_name", extend("x-required" = true))]
    pub name: String,

    /// Listener of the parent. Absent means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::section_name")]
    pub section_name: Option<String>,

    /// Listener port of the parent. Absent means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::port")]
    pub port: Option<i32>,
}

/// Where a route sends requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = cel::service_port()))]
pub struct BackendObjectReference {
    /// API group of the back end; empty for the core group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::group", extend("x-default" = ""))]
    pub group: Option<String>,

    /// Kind of the back end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::kind", extend("x-default" = "Service"))]
    pub kind: Option<String>,

    /// Name of the back end.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::object_name", extend("x-required" = true))]
    pub name: String,

    /// Namespace of the back end. Absent means that of the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::namespace")]
    pub namespace: Option<String>,

    /// Port of the back end; needed for a Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::port")]
    pub port: Option<i32>,
}

/// A Secret (or other object) that holds a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SecretObjectReference {
    /// API group; empty for the core group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::group", extend("x-default" = ""))]
    pub group: Option<String>,

    /// Kind of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::kind", extend("x-default" = "Secret"))]
    pub kind: Option<String>,

    /// Name of the object.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::object_name", extend("x-required" = true))]
    pub name: String,

    /// Namespace of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::namespace")]
    pub namespace: Option<String>,
}

/// An object of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalObjectReference {
    /// API group; empty for the core group.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::group", extend("x-required" = true))]
    pub group: String,

    /// Kind of the object.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::kind", extend("x-required" = true))]
    pub kind: String,

    /// Name of the object.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::object_name", extend("x-required" = true))]
    pub name: String,
}

/// An object, possibly of another namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    /// API group; empty for the core group.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::group", extend("x-required" = true))]
    pub group: String,

    /// Kind of the object.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::kind", extend("x-required" = true))]
    pub kind: String,

    /// Name of the object.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::object_name", extend("x-required" = true))]
    pub name: String,

    /// Namespace of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::namespace")]
    pub namespace: Option<String>,
}
