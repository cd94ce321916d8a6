//! InferencePool, `inference.networking.x-k8s.io/v1alpha2`: the older form, which some gateways still need.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::resource::kind;
use crate::{schema, wire};

kind! {
    /// An InferencePool in its older form.
    pub struct InferencePool: "inference.networking.x-k8s.io", "v1alpha2", "inferencepools", Namespaced {
        spec: InferencePoolSpec,
        status: InferencePoolStatus,
    }
}

/// Model server pods, and the picker that chooses among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InferencePoolSpec {
    /// Labels of the pods that belong to the pool.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::flat_selector", extend("x-required" = true))]
    pub selector: BTreeMap<String, String>,

    /// Port of the model servers.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::port", extend("x-required" = true))]
    pub target_port_number: i32,

    /// The picker.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub extension_ref: Extension,
}

/// A picker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Extension {
    /// API group; empty for the core group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::group", extend("x-default" = ""))]
    pub group: Option<String>,

    /// Kind of the picker.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::kind", extend("x-default" = "Service"))]
    pub kind: Option<String>,

    /// Name of the picker.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::object_name", extend("x-required" = true))]
    pub name: String,

    /// Port of the picker.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::port")]
    pub port_number: Option<i32>,

    /// What happens to requests when the picker does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["FailOpen", "FailClose"], "x-default" = "FailClose"))]
    pub failure_mode: Option<String>,
}

/// What was observed of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InferencePoolStatus {
    /// What each Gateway says.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("maxItems" = 32))]
    pub parent: Vec<PoolStatus>,
}

/// What one Gateway says of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolStatus {
    /// The Gateway.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub parent_ref: ParentGatewayReference,

    /// Accepted, ResolvedRefs.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"], "maxItems" = 8, "x-default" = schema::pending_pool()))]
    pub conditions: Vec<Condition>,
}

/// A Gateway (or other parent) of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ParentGatewayReference {
    /// API group of the parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::group", extend("x-default" = "gateway.networking.k8s.io"))]
    pub group: Option<String>,

    /// Kind of the parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::kind", extend("x-default" = "Gateway"))]
    pub kind: Option<String>,

    /// Name of the parent.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::object_name", extend("x-required" = true))]
    pub name: String,

    /// Namespace of the parent. Absent means that of the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::namespace")]
    pub namespace: Option<String>,
}
