//! ScaledObject of KEDA, `keda.sh/v1alpha1`: what scales a workload, and by what.

use serde::{Deserialize, Serialize};

use crate::resource::kind;
use crate::v1alpha2::{KedaAdvanced, KedaFallback, KedaTrigger};
use crate::wire;

kind! {
    /// A ScaledObject: KEDA makes a HorizontalPodAutoscaler of it.
    pub struct ScaledObject: "keda.sh", "v1alpha1", "scaledobjects", Namespaced {
        spec: ScaledObjectSpec,
        status: ScaledObjectStatus,
    }
}

/// What is scaled, by what, and how far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaledObjectSpec {
    /// The workload.
    #[serde(deserialize_with = "wire::null_default")]
    pub scale_target_ref: ScaleTarget,

    /// Seconds between two checks of the triggers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub polling_interval: Option<i32>,

    /// Seconds after creation before `cooldownPeriod` counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_cooldown_period: Option<i32>,

    /// Seconds after the last active trigger before scaling to `idleReplicaCount`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cooldown_period: Option<i32>,

    /// Replicas while no trigger is active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_replica_count: Option<i32>,

    /// Least replicas while a trigger is active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_replica_count: Option<i32>,

    /// Most replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_replica_count: Option<i32>,

    /// Settings of the autoscaler that KEDA creates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advanced: Option<KedaAdvanced>,

    /// What scales.
    #[serde(deserialize_with = "wire::null_default")]
    pub triggers: Vec<KedaTrigger>,

    /// What to do when the metrics cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<KedaFallback>,
}

/// A workload that can be scaled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaleTarget {
    /// Group and version of its kind.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub api_version: String,

    /// Its kind.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub kind: String,

    /// Its name.
    #[serde(deserialize_with = "wire::null_default")]
    pub name: String,
}

/// What was observed of a ScaledObject.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaledObjectStatus {
    /// Ready, Active, Fallback, Paused.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub conditions: Vec<ScaledObjectCondition>,
}

/// One thing that is known of a ScaledObject. Unlike other conditions it has no time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaledObjectCondition {
    /// What it is about.
    #[serde(rename = "type", deserialize_with = "wire::null_default")]
    pub type_: String,

    /// `True`, `False` or `Unknown`.
    #[serde(deserialize_with = "wire::null_default")]
    pub status: String,

    /// A word.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub reason: String,

    /// A sentence.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub message: String,
}
