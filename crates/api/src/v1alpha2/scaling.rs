//! Automatic scaling.

use std::collections::BTreeMap;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerBehavior;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{cel, wire};

/// Automatic scaling: exactly one of `wva` and `keda`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = cel::scaling()))]
pub struct ScalingSpec {
    /// Replicas that are kept at least, 1 or more. Default 1. Fewer only while idle, see `idleReplicaCount`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "x-default" = 1))]
    pub min_replicas: Option<i32>,

    /// Replicas that there are at most; not less than `minReplicas`.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("minimum" = 1, "x-required" = true))]
    pub max_replicas: i32,

    /// Scale by the Workload Variant Autoscaler, which weighs saturation against cost over all variants of a model and must
    /// be installed. Excludes `keda`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wva: Option<WvaSpec>,

    /// Scale by KEDA, on triggers of your own. KEDA must be installed. Excludes `wva`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keda: Option<DirectKedaSpec>,
}

/// The Workload Variant Autoscaler and its actuator: exactly one of `hpa` and `keda`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = cel::wva()))]
pub struct WvaSpec {
    /// Cost of a replica, relative to those of other variants of the same model: a number that is not negative, as text.
    /// Default `10.0`.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("pattern" = r"^\d+(\.\d+)?$", "x-default" = "10.0"))]
    pub variant_cost: String,

    /// Act through a HorizontalPodAutoscaler; `{}` for its defaults. Excludes `keda`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hpa: Option<WvaHpa>,

    /// Act through a KEDA ScaledObject; `{}` for its defaults. Excludes `hpa`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keda: Option<KedaSettings>,
}

/// Settings of the HorizontalPodAutoscaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WvaHpa {
    /// How fast to scale up and down, as in `autoscaling/v2`. Absent means the defaults of Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behavior: Option<HorizontalPodAutoscalerBehavior>,
}

/// Settings of the ScaledObject.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = cel::keda()))]
pub struct KedaSettings {
    /// Seconds between two checks of the triggers, at least 1. Absent means KEDA's default, 30.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1))]
    pub polling_interval: Option<i32>,

    /// Seconds after the last active trigger before scaling to `idleReplicaCount`, without which it has no effect. Absent
    /// means KEDA's default, 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub cooldown_period: Option<i32>,

    /// Seconds after creation before `cooldownPeriod` counts. Absent means KEDA's default, 0. Without effect if there is no
    /// `idleReplicaCount`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub initial_cooldown_period: Option<i32>,

    /// Replicas while no trigger is active; less than `minReplicas`, which it needs. KEDA supports 0 only. Absent keeps
    /// `minReplicas`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub idle_replica_count: Option<i32>,

    /// Replicas to hold while the metrics cannot be read. Absent leaves the workload as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<KedaFallback>,

    /// Settings of the HorizontalPodAutoscaler that KEDA makes, and of how it reads several triggers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advanced: Option<KedaAdvanced>,
}

/// KEDA settings with triggers of your own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DirectKedaSpec {
    /// Settings of the ScaledObject.
    #[serde(flatten)]
    pub settings: KedaSettings,

    /// What to scale on: at least one trigger, as in a ScaledObject. The one that asks for the most replicas wins.
    #[schemars(extend("minItems" = 1, "x-kubernetes-list-type" = "atomic", "x-required" = true))]
    pub triggers: Option<Vec<KedaTrigger>>,
}

/// Reads all fields at once: a derived reader would buffer them for the flattened struct.
impl<'de> Deserialize<'de> for DirectKedaSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Flat {
            polling_interval: Option<i32>,
            cooldown_period: Option<i32>,
            initial_cooldown_period: Option<i32>,
            idle_replica_count: Option<i32>,
            fallback: Option<KedaFallback>,
            advanced: Option<KedaAdvanced>,
            triggers: Option<Vec<KedaTrigger>>,
        }
        let flat = Flat::deserialize(deserializer)?;
        Ok(Self {
            settings: KedaSettings {
                polling_interval: flat.polling_interval,
                cooldown_period: flat.cooldown_period,
                initial_cooldown_period: flat.initial_cooldown_period,
                idle_replica_count: flat.idle_replica_count,
                fallback: flat.fallback,
                advanced: flat.advanced,
            },
            triggers: flat.triggers,
        })
    }
}

/// Replicas to hold while the metrics cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KedaFallback {
    /// Failed reads in a row, after which the fallback holds.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub failure_threshold: i32,

    /// Replicas to hold, as `behavior` says.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub replicas: i32,

    /// How `replicas` relates to the current number: `static` sets it, `currentReplicas` leaves the current one,
    /// `currentReplicasIfHigher` and `currentReplicasIfLower` take whichever is higher or lower. Default `static`.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("enum" = ["static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower"], "x-default" = "static"))]
    pub behavior: String,
}

/// Settings of the autoscaler that KEDA makes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KedaAdvanced {
    /// Settings of the HorizontalPodAutoscaler that KEDA makes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub horizontal_pod_autoscaler_config: Option<KedaHpaConfig>,

    /// Whether the workload gets its first replica count back when the ScaledObject goes. Default false.
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
    /// How fast to scale up and down, as in `autoscaling/v2`. Absent means the defaults of Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behavior: Option<HorizontalPodAutoscalerBehavior>,

    /// Must be absent or empty: the controller chooses the name.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub name: String,
}

/// A formula over several triggers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KedaScalingModifiers {
    /// The formula, over names of triggers: `queue + 2 * running`.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub formula: String,

    /// Value that the formula should have for each replica. Needs `formula`.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub target: String,

    /// Value of the formula above which the workload is active. Needs `formula`. Absent means KEDA's default, 0.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub activation_target: String,

    /// How the value is compared with `target`: `AverageValue`, for each replica, or `Value`, as a whole. Needs `formula`.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("enum" = ["AverageValue", "Value"]))]
    pub metric_type: String,
}

/// One trigger of a ScaledObject.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KedaTrigger {
    /// Kind of trigger, as KEDA calls its scalers: `prometheus`, `cron`.
    #[serde(rename = "type", deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub type_: String,

    /// Name of the trigger, for use in `advanced.scalingModifiers.formula`.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub name: String,

    /// Whether the value comes from KEDA's cache between two polls, which spares the source. Default false.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub use_cached_metrics: bool,

    /// Settings of the trigger, which depend on its type; for `prometheus` the address, the query and the threshold.
    #[schemars(extend("x-required" = true))]
    pub metadata: Option<BTreeMap<String, String>>,

    /// Where KEDA finds the credentials for the source of the trigger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication_ref: Option<KedaAuthenticationRef>,

    /// How the value is compared: `AverageValue`, `Value` or, for `cpu` and `memory`, `Utilization`. Absent means KEDA's
    /// default for the type.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub metric_type: String,
}

/// A TriggerAuthentication, or a ClusterTriggerAuthentication.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KedaAuthenticationRef {
    /// Name of the TriggerAuthentication, in the namespace of the service, or of the ClusterTriggerAuthentication.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,

    /// `TriggerAuthentication` (default) or `ClusterTriggerAuthentication`.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub kind: String,
}
