//! InferencePool, `inference.networking.x-k8s.io/v1alpha2`: the older form, which some gateways still need.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

use crate::resource::kind;
use crate::wire;

kind! {
    /// An InferencePool in its older form.
    pub struct InferencePool: "inference.networking.x-k8s.io", "v1alpha2", "inferencepools", Namespaced {
        spec: InferencePoolSpec,
        status: InferencePoolStatus,
    }
}

/// Model server pods, and the picker that chooses among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InferencePoolSpec {
    /// Labels of the pods that belong to the pool.
    #[serde(deserialize_with = "wire::null_default")]
    pub selector: BTreeMap<String, String>,

    /// Port of the model servers.
    #[serde(deserialize_with = "wire::null_default")]
    pub target_port_number: i32,

    /// The picker.
    #[serde(deserialize_with = "wire::null_default")]
    pub extension_ref: Extension,
}

/// A picker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Extension {
    /// API group; empty for the core group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,

    /// Kind of the picker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,

    /// Name of the picker.
    #[serde(deserialize_with = "wire::null_default")]
    pub name: String,

    /// Port of the picker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_number: Option<i32>,

    /// What happens to requests when the picker does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_mode: Option<String>,
}

/// What was observed of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InferencePoolStatus {
    /// What each Gateway says.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub parent: Vec<PoolStatus>,
}

/// What one Gateway says of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolStatus {
    /// The Gateway.
    #[serde(deserialize_with = "wire::null_default")]
    pub parent_ref: ParentGatewayReference,

    /// Accepted, ResolvedRefs.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub conditions: Vec<Condition>,
}

/// A Gateway (or other parent) of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ParentGatewayReference {
    /// API group of the parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,

    /// Kind of the parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,

    /// Name of the parent.
    #[serde(deserialize_with = "wire::null_default")]
    pub name: String,

    /// Namespace of the parent. Absent means that of the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}
