//! Conditions: what is ready and what is not.

mod condition;
mod engine;
mod rollup;

pub use condition::{Condition, ConditionStatus, Severity};
pub use engine::{Conditions, groom};
pub use rollup::{GATED, GATED_DISAGGREGATED, ROUTER, Rollup, SERVICE, WORKLOADS};

/// Types of conditions.
pub mod types {
    /// Everything that matters is ready.
    pub const READY: &str = "Ready";
    /// Configs were found, merged, rendered and accepted.
    pub const PRESETS_COMBINED: &str = "PresetsCombined";
    /// No workload says that it is not ready.
    pub const WORKLOADS_READY: &str = "WorkloadsReady";
    /// Nothing of the router says that it is not ready.
    pub const ROUTER_READY: &str = "RouterReady";
    /// The single-node main workload.
    pub const MAIN_WORKLOAD_READY: &str = "MainWorkloadReady";
    /// The multi-node main workload.
    pub const WORKER_WORKLOAD_READY: &str = "WorkerWorkloadReady";
    /// The single-node prefill workload.
    pub const PREFILL_WORKLOAD_READY: &str = "PrefillWorkloadReady";
    /// The multi-node prefill workload.
    pub const PREFILL_WORKER_WORKLOAD_READY: &str = "PrefillWorkerWorkloadReady";
    /// Autoscaling of the main workload.
    pub const SCALING_READY: &str = "ScalingReady";
    /// Autoscaling of the prefill workload.
    pub const PREFILL_SCALING_READY: &str = "PrefillScalingReady";
    /// The Gateways that the service names.
    pub const GATEWAYS_READY: &str = "GatewaysReady";
    /// The routes, as their Gateways see them.
    pub const HTTP_ROUTES_READY: &str = "HTTPRoutesReady";
    /// The pool, as its Gateways see it.
    pub const INFERENCE_POOL_READY: &str = "InferencePoolReady";
    /// The picker.
    pub const SCHEDULER_WORKLOAD_READY: &str = "SchedulerWorkloadReady";
    /// The tokenizer service.
    pub const TOKENIZER_READY: &str = "TokenizerReady";
    /// The route of a routing group.
    pub const GROUP_READY: &str = "GroupReady";
    /// Members of a routing group serve different models; true is bad.
    pub const GROUP_DEGRADED: &str = "GroupDegraded";
    /// Whether the cluster can mount images as volumes; only ever false.
    pub const OCI_IMAGE_VOLUME_COMPATIBLE: &str = "OciImageVolumeCompatible";
    /// A request came back with a token of the model; only where the proof of serving is on.
    pub const SERVING_PROVEN: &str = "ServingProven";
    /// The decode pods took the KV cache of the prefill pods; only where the proof of serving is on and prefill is apart.
    pub const KV_TRANSFER_OBSERVED: &str = "KVTransferObserved";
    /// How far the download of the model is; only ever there while one runs whose progress is told, and never true.
    pub const MODEL_FETCHED: &str = "ModelFetched";
    /// All pods can exchange KV cache with one another; only where pairing is on and prefill is apart.
    pub const KV_PAIRED: &str = "KVPaired";
    /// Of a config: services use it.
    pub const CONFIG_IN_USE: &str = "ConfigInUse";
}
