//! The table of conditions.

/// The properties of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The type.
    pub type_: &'static str,
    /// A description for people.
    pub about: &'static str,
    /// The type of the roll-up that has this condition as a part.
    pub part_of: Option<&'static str>,
    /// What happens to the condition when the service is stopped.
    pub when_stopped: WhenStopped,
    /// Whether this service gets traffic of other services of its group only while the condition is not false.
    pub blocks_peers_when_false: bool,
}

/// What happens to a condition when the service is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenStopped {
    /// The condition becomes false with the reason `Stopped`, even if the service does not have the part: so a client that
    /// waits for the condition gets a result.
    Stopped,
    /// The condition is removed.
    Absent,
    /// The condition is computed as for a running service.
    Unchanged,
}

macro_rules! conditions {
    ($($(#[doc = $about:literal])* $name:ident: $type:literal (part of $whole:ident, $stopped:ident, $traffic:ident $_:ident);)*) => {
        /// Types of conditions.
        pub mod types {
            $($(#[doc = $about])* pub const $name: &str = $type;)*
        }

        /// All conditions, in the order in which roll-ups check their parts.
        pub const ALL: &[Row] = &[
            $(Row {
                type_: types::$name,
                about: concat!($($about),*),
                part_of: conditions!(@whole $whole),
                when_stopped: WhenStopped::$stopped,
                blocks_peers_when_false: conditions!(@traffic $traffic),
            },)*
        ];
    };
    (@whole nothing) => { None };
    (@whole $whole:ident) => { Some(stringify!($whole)) };
    (@traffic carries) => { true };
    (@traffic no) => { false };
}

conditions! {
    /// The service is ready for requests.
    READY: "Ready" (part of nothing, Unchanged, no traffic);
    /// The presets and configs were found, merged, rendered and validated.
    PRESETS_COMBINED: "PresetsCombined" (part of nothing, Unchanged, no traffic);
    /// No workload reports that it is not ready.
    WORKLOADS_READY: "WorkloadsReady" (part of nothing, Unchanged, no traffic);
    /// No part of the router reports that it is not ready.
    ROUTER_READY: "RouterReady" (part of nothing, Unchanged, no traffic);
    /// The single-node main workload is ready.
    MAIN_WORKLOAD_READY: "MainWorkloadReady" (part of WorkloadsReady, Stopped, no traffic);
    /// The multi-node main workload is ready.
    WORKER_WORKLOAD_READY: "WorkerWorkloadReady" (part of WorkloadsReady, Stopped, no traffic);
    /// The single-node prefill workload is ready.
    PREFILL_WORKLOAD_READY: "PrefillWorkloadReady" (part of WorkloadsReady, Stopped, no traffic);
    /// The multi-node prefill workload is ready.
    PREFILL_WORKER_WORKLOAD_READY: "PrefillWorkerWorkloadReady" (part of WorkloadsReady, Stopped, no traffic);
    /// Autoscaling of the main workload is ready.
    SCALING_READY: "ScalingReady" (part of WorkloadsReady, Absent, no traffic);
    /// Autoscaling of the prefill workload is ready.
    PREFILL_SCALING_READY: "PrefillScalingReady" (part of WorkloadsReady, Absent, no traffic);
    /// The Gateways that the service names are ready.
    GATEWAYS_READY: "GatewaysReady" (part of RouterReady, Stopped, carries traffic);
    /// The Gateways accept the routes.
    HTTP_ROUTES_READY: "HTTPRoutesReady" (part of RouterReady, Stopped, no traffic);
    /// The Gateways accept the InferencePool.
    INFERENCE_POOL_READY: "InferencePoolReady" (part of RouterReady, Stopped, carries traffic);
    /// The picker is ready.
    SCHEDULER_WORKLOAD_READY: "SchedulerWorkloadReady" (part of RouterReady, Stopped, carries traffic);
    /// The tokenizer service is ready.
    TOKENIZER_READY: "TokenizerReady" (part of RouterReady, Stopped, carries traffic);
    /// The route of the routing group is ready.
    GROUP_READY: "GroupReady" (part of nothing, Absent, no traffic);
    /// Members of the routing group serve different models. True means that something is wrong.
    GROUP_DEGRADED: "GroupDegraded" (part of nothing, Absent, no traffic);
    /// The cluster can mount images as volumes. Present only if false.
    OCI_IMAGE_VOLUME_COMPATIBLE: "OciImageVolumeCompatible" (part of nothing, Unchanged, no traffic);
    /// A test request returned a token of the model. Present only if the proof of serving is on.
    SERVING_PROVEN: "ServingProven" (part of nothing, Unchanged, no traffic);
    /// The decode pods used the KV cache of the prefill pods. Present only if the proof of serving is on and prefill is
    /// separate.
    KV_TRANSFER_OBSERVED: "KVTransferObserved" (part of nothing, Unchanged, no traffic);
    /// Progress of the model download. Present only during a download that reports its progress, and never true.
    MODEL_FETCHED: "ModelFetched" (part of nothing, Unchanged, no traffic);
    /// All pods have the LoRA adapters of the spec. Present only if adapters are loaded while pods run.
    ADAPTERS_LOADED: "AdaptersLoaded" (part of nothing, Absent, no traffic);
    /// All pods can exchange KV cache with one another. Present only if pairing is on and prefill is separate.
    KV_PAIRED: "KVPaired" (part of nothing, Unchanged, no traffic);
    /// On a config: services use it.
    CONFIG_IN_USE: "ConfigInUse" (part of nothing, Unchanged, no traffic);
}

/// Returns the parts of a roll-up of this type in the order in which it checks them.
pub(super) fn parts(rollup: &str) -> impl Iterator<Item = &'static str> {
    ALL.iter().filter(move |row| row.part_of == Some(rollup)).map(|row| row.type_)
}
