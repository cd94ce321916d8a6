//! LeaderWorkerSet, `leaderworkerset.x-k8s.io/v1`: replicas that are groups of pods.

use k8s_openapi::{
    api::core::v1::PodTemplateSpec,
    apimachinery::pkg::{apis::meta::v1::Condition, util::intstr::IntOrString},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::resource::kind;
use crate::wire;

kind! {
    /// A LeaderWorkerSet: groups of pods that come, serve and go together.
    pub struct LeaderWorkerSet: "leaderworkerset.x-k8s.io", "v1", "leaderworkersets", Namespaced {
        spec: LeaderWorkerSetSpec,
        status: LeaderWorkerSetStatus,
    }
}

/// How many groups there are, and what a group is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaderWorkerSetSpec {
    /// Number of groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,

    /// What a group is.
    #[serde(deserialize_with = "wire::null_default")]
    pub leader_worker_template: LeaderWorkerTemplate,

    /// How changes are rolled out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_strategy: Option<RolloutStrategy>,

    /// When workers start: with the leader's pod (`LeaderCreated`), or once it is ready (`LeaderReady`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub startup_policy: Option<String>,

    /// How pods find each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_config: Option<Value>,
}

/// What a group of pods is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaderWorkerTemplate {
    /// The first pod of a group; like the others where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader_template: Option<PodTemplateSpec>,

    /// The other pods of a group.
    #[serde(deserialize_with = "wire::null_default")]
    pub worker_template: PodTemplateSpec,

    /// Pods in a group, the leader among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i32>,

    /// What happens to a group of which a pod restarts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,

    /// Parts of a group that are placed together. Fixed at creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_group_policy: Option<SubGroupPolicy>,
}

/// Parts of a group that are placed together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubGroupPolicy {
    /// Whether the leader is in the first part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_group_policy_type: Option<String>,

    /// Pods in a part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_group_size: Option<i32>,
}

/// How changes are rolled out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutStrategy {
    /// `RollingUpdate` is all there is.
    #[serde(rename = "type", deserialize_with = "wire::null_default")]
    pub type_: String,

    /// How many groups at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update_configuration: Option<RollingUpdateConfiguration>,
}

/// How many groups change at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdateConfiguration {
    /// Groups that may be missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,

    /// Groups that may be too many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrString>,
}

/// What was observed of a LeaderWorkerSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaderWorkerSetStatus {
    /// Available, Progressing, UpdateInProgress.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub conditions: Vec<Condition>,

    /// Groups all of whose pods are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,

    /// Groups of the newest revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,

    /// Groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,

    /// Selects the pods that an autoscaler counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hpa_pod_selector: Option<String>,
}
