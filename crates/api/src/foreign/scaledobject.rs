//! ScaledObject of KEDA, `keda.sh/v1alpha1`: what scales a workload, and by what.

use crate::resource::kind;
use crate::v1alpha2::{KedaAdvanced, KedaFallback, KedaTrigger};
use crate::wire::go_struct;

/// The annotation of a ScaledObject with which KEDA does not scale.
pub const PAUSED: &str = "autoscaling.keda.sh/paused";

kind! {
    /// A ScaledObject: KEDA makes a HorizontalPodAutoscaler of it.
    pub struct ScaledObject: "keda.sh", "v1alpha1", "scaledobjects", Namespaced {
        spec: ScaledObjectSpec,
        status: ScaledObjectStatus,
    }
}

go_struct! {
    /// What is scaled, by what, and how far.
    pub struct ScaledObjectSpec {
        /// The workload.
        always pub scale_target_ref: ScaleTarget,

        /// Seconds between two checks of the triggers.
        pub polling_interval: Option<i32>,

        /// Seconds after creation before `cooldownPeriod` counts.
        pub initial_cooldown_period: Option<i32>,

        /// Seconds after the last active trigger before scaling to `idleReplicaCount`.
        pub cooldown_period: Option<i32>,

        /// Replicas while no trigger is active.
        pub idle_replica_count: Option<i32>,

        /// Least replicas while a trigger is active.
        pub min_replica_count: Option<i32>,

        /// Most replicas.
        pub max_replica_count: Option<i32>,

        /// Settings of the autoscaler that KEDA creates.
        pub advanced: Option<KedaAdvanced>,

        /// What scales.
        always pub triggers: Vec<KedaTrigger>,

        /// What to do when the metrics cannot be read.
        pub fallback: Option<KedaFallback>,
    }

    /// A workload that can be scaled.
    #[derive(Eq)]
    pub struct ScaleTarget {
        /// Group and version of its kind.
        pub api_version: String,

        /// Its kind.
        pub kind: String,

        /// Its name.
        always pub name: String,
    }

    /// What was observed of a ScaledObject.
    #[derive(Eq)]
    pub struct ScaledObjectStatus {
        /// Ready, Active, Fallback, Paused.
        pub conditions: Vec<ScaledObjectCondition>,
    }

    /// One thing that is known of a ScaledObject. Unlike other conditions it has no time.
    #[derive(Eq)]
    pub struct ScaledObjectCondition {
        /// What it is about.
        #[serde(rename = "type")]
        always pub type_: String,

        /// `True`, `False` or `Unknown`.
        always pub status: String,

        /// A word.
        pub reason: String,

        /// A sentence.
        pub message: String,
    }
}
