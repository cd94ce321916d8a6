//! Automatic scaling (contract 01 §2.2.1).

use std::collections::BTreeMap;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerBehavior;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{cel, wire};

/// Automatic scaling: exactly one of `wva` and `keda`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = cel::scaling()))]
pub struct ScalingSpec {
    /// Replicas kept while active.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "x-default" = 1))]
    pub min_replicas: Option<i32>,

    /// Most replicas there may be.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("minimum" = 1, "x-required" = true))]
    pub max_replicas: i32,

    /// Scale by the Workload Variant Autoscaler, which weighs saturation against cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wva: Option<WvaSpec>,

    /// Scale by KEDA triggers of your own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keda: Option<DirectKedaSpec>,
}

/// The Workload Variant Autoscaler and its actuator: exactly one of `hpa` and `keda`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = cel::wva()))]
pub struct WvaSpec {
    /// Cost of a replica, relative to those of other variants of the same model.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("pattern" = r"^\d+(\.\d+)?$", "x-default" = "10.0"))]
    pub variant_cost: String,

    /// Act through a HorizontalPodAutoscaler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hpa: Option<WvaHpa>,

    /// Act through a KEDA ScaledObject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keda: Option<KedaSettings>,
}

/// Settings of the HorizontalPodAutoscaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WvaHpa {
    /// How fast to scale up and down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behavior: Option<HorizontalPodAutoscalerBehavior>,
}

/// Settings of the ScaledObject.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = cel::keda()))]
pub struct KedaSettings {
    /// Seconds between two checks of the triggers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1))]
    pub polling_interval: Option<i32>,

    /// Seconds after the last active trigger before scaling to `idleReplicaCount`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub cooldown_period: Option<i32>,

    /// Seconds after creation before `cooldownPeriod` counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub initial_cooldown_period: Option<i32>,

    /// Replicas while no trigger is active; less than `minReplicas`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub idle_replica_count: Option<i32>,

    /// What to do when the metrics cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<KedaFallback>,

    /// Settings of the autoscaler that KEDA makes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advanced: Option<KedaAdvanced>,
}

/// KEDA settings with triggers of your own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DirectKedaSpec {
    /// Settings of the ScaledObject.
    #[serde(flatten)]
    pub settings: KedaSettings,

    /// What to scale on; at least one.
    #[schemars(extend("minItems" = 1, "x-kubernetes-list-type" = "atomic", "x-required" = true))]
    pub triggers: Option<Vec<KedaTrigger>>,
}

/// Replicas to hold while the metrics cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KedaFallback {
    /// Failed reads in a row before the fallback holds.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub failure_threshold: i32,

    /// Replicas to hold.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub replicas: i32,

    /// How `replicas` relates to the current number.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("enum" = ["static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower"], "x-default" = "static"))]
    pub behavior: String,
}

/// Settings of the autoscaler that KEDA makes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KedaAdvanced {
    /// Settings of the HorizontalPodAutoscaler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub horizontal_pod_autoscaler_config: Option<KedaHpaConfig>,

    /// Restore the replica count when the ScaledObject goes.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub restore_to_original_replica_count: bool,

    /// Combine several triggers into one metric. Not with `wva`, which has its own formula.
    #[serde(deserialize_with = "wire::null_default")]
    pub scaling_modifiers: KedaScalingModifiers,
}

/// Settings of the HorizontalPodAutoscaler that KEDA makes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KedaHpaConfig {
    /// How fast to scale up and down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behavior: Option<HorizontalPodAutoscalerBehavior>,

    /// Must be empty: the controller chooses the name.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub name: String,
}

/// A formula over several triggers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KedaScalingModifiers {
    /// The formula, over trigger names.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub formula: String,

    /// Target value of the formula.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub target: String,

    /// Value from which the formula counts as active.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub activation_target: String,

    /// How the value is compared.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("enum" = ["AverageValue", "Value"]))]
    pub metric_type: String,
}

/// One trigger of a ScaledObject.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KedaTrigger {
    /// Kind of trigger, for example `prometheus`.
    #[serde(rename = "type", deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub type_: String,

    /// Name, for use in a formula.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub name: String,

    /// Serve the value from KEDA's cache between polls.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub use_cached_metrics: bool,

    /// Settings of the trigger.
    #[schemars(extend("x-required" = true))]
    pub metadata: Option<BTreeMap<String, String>>,

    /// Credentials of the trigger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication_ref: Option<KedaAuthenticationRef>,

    /// How the value is compared: `AverageValue`, `Value` or `Utilization`.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub metric_type: String,
}

/// A TriggerAuthentication, or a ClusterTriggerAuthentication.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KedaAuthenticationRef {
    /// Name of the object.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,

    /// `TriggerAuthentication` (default) or `ClusterTriggerAuthentication`.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub kind: String,
}
