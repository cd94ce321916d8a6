//! Label keys and values of services and their children.

/// Says that an object belongs to the services of this API; caches and watches select by it.
pub const PART_OF: &str = "app.kubernetes.io/part-of";
/// Value of [`PART_OF`].
pub const PART_OF_VALUE: &str = "llminferenceservice";
/// Name of the service that an object belongs to.
pub const NAME: &str = "app.kubernetes.io/name";
/// What an object is for; values in [`component`].
pub const COMPONENT: &str = "app.kubernetes.io/component";
/// Part of the selector of workload pods.
pub const KSERVE_COMPONENT: &str = "kserve.io/component";
/// Value of [`KSERVE_COMPONENT`] on workload pods.
pub const KSERVE_COMPONENT_WORKLOAD: &str = "workload";
/// What a workload pod does for the picker; values in [`role`].
pub const ROLE: &str = "llm-d.ai/role";
/// On pods of a service whose prefill is apart, where pairing is on: a digest of what prefill and decode must agree about to
/// exchange KV cache. The picker pairs equal ones only.
pub const KV_REVISION: &str = "longboat.dev/kv-revision";
/// Routing group of a service, kept equal to `spec.router.route.group`; on its managed HTTPRoute too.
pub const ROUTING_GROUP: &str = "serving.kserve.io/routing-group";
/// Name of the model cache that holds the service's model.
pub const LOCAL_MODEL: &str = "internal.serving.kserve.io/localmodel";
/// Namespace of a namespaced model cache.
pub const LOCAL_MODEL_NAMESPACE: &str = "internal.serving.kserve.io/localmodel-namespace";

/// The Gateway that an implementation made an object for.
pub const GATEWAY_NAME: &str = "gateway.networking.k8s.io/gateway-name";

/// Prefixes of label keys that travel from a service to its workloads.
pub const PROPAGATED_PREFIXES: [&str; 2] = ["kueue.x-k8s.io", "internal.serving.kserve.io/localmodel"];

/// Values of [`COMPONENT`].
pub mod component {
    /// HTTPRoutes.
    pub const ROUTER: &str = "llminferenceservice-router";
    /// The picker and what it needs.
    pub const SCHEDULER: &str = "llminferenceservice-router-scheduler";
    /// The decode workload, or the only one.
    pub const WORKLOAD: &str = "llminferenceservice-workload";
    /// The prefill workload.
    pub const WORKLOAD_PREFILL: &str = "llminferenceservice-workload-prefill";
    /// Worker pods of a group.
    pub const WORKLOAD_WORKER: &str = "llminferenceservice-workload-worker";
    /// Leader pods of a group.
    pub const WORKLOAD_LEADER: &str = "llminferenceservice-workload-leader";
    /// Worker pods of a prefill group.
    pub const WORKLOAD_WORKER_PREFILL: &str = "llminferenceservice-workload-worker-prefill";
    /// Leader pods of a prefill group.
    pub const WORKLOAD_LEADER_PREFILL: &str = "llminferenceservice-workload-leader-prefill";
    /// The tokenizer service.
    pub const TOKENIZER: &str = "tokenizer";
}

/// Values of [`ROLE`].
pub mod role {
    /// Decodes what another pod prefilled.
    pub const DECODE: &str = "decode";
    /// Prefills for another pod.
    pub const PREFILL: &str = "prefill";
    /// Does both.
    pub const BOTH: &str = "both";
}
