//! Automatic scaling.

use std::collections::BTreeMap;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerBehavior;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    cel,
    wire::{self, go_struct},
};

go_struct! {
    /// Automatic scaling: exactly one of `wva` and `keda`.
    #[derive(JsonSchema)]
    #[schemars(extend("x-kubernetes-validations" = cel::scaling()))]
    pub struct ScalingSpec {
        /// Minimum number of replicas, at least 1. Default 1. Only `idleReplicaCount` can be lower.
        #[schemars(extend("minimum" = 1, "x-default" = 1))]
        pub min_replicas: Option<i32>,

        /// Maximum number of replicas; not less than `minReplicas`.
        #[schemars(extend("minimum" = 1, "x-required" = true))]
        always pub max_replicas: i32,

        /// Scale with the Workload Variant Autoscaler, which weighs saturation against cost over all variants of a model. It
        /// must be installed. Excludes `keda`.
        pub wva: Option<WvaSpec>,

        /// Scale with KEDA, on your own triggers. KEDA must be installed. Excludes `wva`.
        pub keda: Option<DirectKedaSpec>,
    }

    /// The Workload Variant Autoscaler and its actuator: exactly one of `hpa` and `keda`.
    #[derive(JsonSchema)]
    #[schemars(extend("x-kubernetes-validations" = cel::wva()))]
    pub struct WvaSpec {
        /// Cost of a replica relative to other variants of the same model: a number that is not negative, as a string. Default
        /// `10.0`.
        #[schemars(extend("pattern" = r"^\d+(\.\d+)?$", "x-default" = "10.0"))]
        pub variant_cost: String,

        /// Scale through a HorizontalPodAutoscaler; `{}` uses its defaults. Excludes `keda`.
        pub hpa: Option<WvaHpa>,

        /// Scale through a KEDA ScaledObject; `{}` uses its defaults. Excludes `hpa`.
        pub keda: Option<KedaSettings>,
    }

    /// Settings of the HorizontalPodAutoscaler.
    #[derive(JsonSchema)]
    pub struct WvaHpa {
        /// How fast to scale up and down, as in `autoscaling/v2`. Absent means the defaults of Kubernetes.
        pub behavior: Option<HorizontalPodAutoscalerBehavior>,
    }

    /// Settings of the ScaledObject.
    #[derive(JsonSchema)]
    #[schemars(extend("x-kubernetes-validations" = cel::keda()))]
    pub struct KedaSettings {
        /// Seconds between two checks of the triggers, at least 1. Absent means KEDA's default, 30.
        #[schemars(extend("minimum" = 1))]
        pub polling_interval: Option<i32>,

        /// Seconds from the last active trigger until the workload scales to `idleReplicaCount`. Absent means KEDA's default,
        /// 300. Without effect if there is no `idleReplicaCount`.
        #[schemars(extend("minimum" = 0))]
        pub cooldown_period: Option<i32>,

        /// Seconds from the creation of the ScaledObject until `cooldownPeriod` applies. Absent means KEDA's default, 0.
        /// Without effect if there is no `idleReplicaCount`.
        #[schemars(extend("minimum" = 0))]
        pub initial_cooldown_period: Option<i32>,

        /// Number of replicas while no trigger is active. Needs `minReplicas`, and must be less than it. KEDA supports only 0.
        /// If absent, `minReplicas` applies.
        #[schemars(extend("minimum" = 0))]
        pub idle_replica_count: Option<i32>,

        /// Number of replicas while the metrics cannot be read. If absent, the number does not change.
        pub fallback: Option<KedaFallback>,

        /// Settings of the HorizontalPodAutoscaler that KEDA creates, and a formula that combines several triggers.
        pub advanced: Option<KedaAdvanced>,
    }
}

/// KEDA settings with your own triggers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DirectKedaSpec {
    /// Settings of the ScaledObject.
    #[serde(flatten)]
    pub settings: KedaSettings,

    /// Triggers to scale on, at least one, as in a ScaledObject. The trigger that asks for the most replicas decides.
    #[schemars(extend("minItems" = 1, "x-kubernetes-list-type" = "atomic", "x-required" = true))]
    pub triggers: Option<Vec<KedaTrigger>>,
}

go_struct! {
    /// Number of replicas while the metrics cannot be read.
    #[derive(Eq, JsonSchema)]
    pub struct KedaFallback {
        /// Number of consecutive failed reads after which the fallback applies.
        #[schemars(extend("x-required" = true))]
        always pub failure_threshold: i32,

        /// Number of replicas of the fallback; see `behavior`.
        #[schemars(extend("x-required" = true))]
        always pub replicas: i32,

        /// How `replicas` is applied: `static` sets this number, `currentReplicas` keeps the current number,
        /// `currentReplicasIfHigher` and `currentReplicasIfLower` keep the current number if it is higher or lower than
        /// `replicas`. Default `static`.
        #[schemars(extend("enum" = ["static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower"], "x-default" = "static"))]
        pub behavior: String,
    }

    /// Settings of the autoscaler that KEDA creates.
    #[derive(JsonSchema)]
    pub struct KedaAdvanced {
        /// Settings of the HorizontalPodAutoscaler that KEDA creates.
        pub horizontal_pod_autoscaler_config: Option<KedaHpaConfig>,

        /// Whether the original number of replicas is restored when the ScaledObject is deleted. Default false.
        pub restore_to_original_replica_count: bool,

        /// Combines several triggers into one metric. Not allowed with `wva`, which has its own formula.
        always pub scaling_modifiers: KedaScalingModifiers,
    }

    /// Settings of the HorizontalPodAutoscaler that KEDA creates.
    #[derive(JsonSchema)]
    pub struct KedaHpaConfig {
        /// How fast to scale up and down, as in `autoscaling/v2`. Absent means the defaults of Kubernetes.
        pub behavior: Option<HorizontalPodAutoscalerBehavior>,

        /// Must be absent or empty: the controller chooses the name.
        pub name: String,
    }

    /// A formula over several triggers.
    #[derive(Eq, JsonSchema)]
    pub struct KedaScalingModifiers {
        /// Formula over the names of triggers, such as `queue + 2 * running`.
        pub formula: String,

        /// Target value of the formula; see `metricType`. Needs `formula`.
        pub target: String,

        /// Value of the formula above which the workload is active. Needs `formula`. Absent means KEDA's default, 0.
        pub activation_target: String,

        /// How the value is compared with `target`: `AverageValue` compares the value per replica, `Value` the whole value.
        /// Needs `formula`.
        #[schemars(extend("enum" = ["AverageValue", "Value"]))]
        pub metric_type: String,
    }
}

/// One trigger of a ScaledObject.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KedaTrigger {
    /// Type of the trigger: the name of a KEDA scaler, such as `prometheus` or `cron`.
    #[serde(rename = "type", deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub type_: String,

    /// Name of the trigger, for use in `advanced.scalingModifiers.formula`.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub name: String,

    /// Whether KEDA uses a cached value between two polls, which saves requests to the source. Default false.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub use_cached_metrics: bool,

    /// Settings of the trigger, which depend on its type. A `prometheus` trigger needs the address, the query and the
    /// threshold.
    #[schemars(extend("x-required" = true))]
    pub metadata: Option<BTreeMap<String, String>>,

    /// Credentials of KEDA for the source of the trigger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication_ref: Option<KedaAuthenticationRef>,

    /// How the value is compared: `AverageValue`, `Value` or, for `cpu` and `memory`, `Utilization`. Absent means KEDA's
    /// default for the type.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub metric_type: String,
}

go_struct! {
    /// A TriggerAuthentication, or a ClusterTriggerAuthentication.
    #[derive(Eq, JsonSchema)]
    pub struct KedaAuthenticationRef {
        /// Name of the TriggerAuthentication, in the namespace of the service, or of the ClusterTriggerAuthentication.
        #[schemars(extend("x-required" = true))]
        always pub name: String,

        /// `TriggerAuthentication` (default) or `ClusterTriggerAuthentication`.
        pub kind: String,
    }
}
