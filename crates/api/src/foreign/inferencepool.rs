//! InferencePool, `inference.networking.k8s.io/v1`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

use crate::resource::kind;
use crate::wire;

kind! {
    /// An InferencePool: model server pods, and the picker that chooses among them.
    pub struct InferencePool: "inference.networking.k8s.io", "v1", "inferencepools", Namespaced {
        spec: InferencePoolSpec,
        status: InferencePoolStatus,
    }
}

/// Model server pods, and the picker that chooses among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InferencePoolSpec {
    /// Which pods belong to the pool.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub selector: LabelSelector,

    /// Ports of the model servers.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub target_ports: Vec<PoolPort>,

    /// Protocol of the model servers.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub app_protocol: String,

    /// The picker that chooses among the pods of the pool.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub endpoint_picker_ref: EndpointPickerRef,
}

/// Labels that pods have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels that a pod of the pool has; it needs all of them.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub match_labels: BTreeMap<String, String>,
}

/// A port by its number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolPort {
    /// Number of the port, 1 to 65535.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub number: i32,
}

/// A picker, and what happens without it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointPickerRef {
    /// API group; empty for the core group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,

    /// Kind of the picker.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub kind: String,

    /// Name of the picker.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub name: String,

    /// Port of the picker; needed for a Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<PoolPort>,

    /// What happens to requests when the picker does not answer.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub failure_mode: String,
}

/// What was observed of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InferencePoolStatus {
    /// What each Gateway says.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub parents: Vec<PoolParentStatus>,
}

/// What one Gateway says of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolParentStatus {
    /// Accepted, ResolvedRefs.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub conditions: Vec<Condition>,

    /// The Gateway.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub parent_ref: PoolParentReference,

    /// Who says so.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub controller_name: String,
}

/// A Gateway (or other parent) of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolParentReference {
    /// API group of the parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,

    /// Kind of the parent.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub kind: String,

    /// Name of the parent.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub name: String,

    /// Namespace of the parent. Absent means that of the pool.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub namespace: String,
}
