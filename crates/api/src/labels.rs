//! Label keys and values of services and their children.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use longboat_key::Name;

/// Marks the objects of LLMInferenceServices. Caches and watches select by this label.
pub const PART_OF: &str = "app.kubernetes.io/part-of";
/// Value of [`PART_OF`].
pub const PART_OF_VALUE: &str = "llminferenceservice";
/// Selects the objects of all services.
pub const PART_OF_SELECTOR: &str = "app.kubernetes.io/part-of=llminferenceservice";
/// Name of the service that an object belongs to.
pub const NAME: &str = "app.kubernetes.io/name";
/// Purpose of an object; [`component`] has the values.
pub const COMPONENT: &str = "app.kubernetes.io/component";
/// Part of the selector of workload pods.
pub const KSERVE_COMPONENT: &str = "kserve.io/component";
/// Value of [`KSERVE_COMPONENT`] on workload pods.
pub const KSERVE_COMPONENT_WORKLOAD: &str = "workload";
/// Role of a workload pod, which the picker reads; [`role`] has the values.
pub const ROLE: &str = "llm-d.ai/role";
/// The engine of a pod: the picker reads the metrics that this engine has. Without the label, those of vLLM.
pub const ENGINE_TYPE: &str = "inference.networking.k8s.io/engine-type";
/// On pods of a service with separate prefill and pairing: a hash of the settings in which prefill and decode must agree to
/// exchange KV cache. The picker pairs only pods with equal values.
pub const KV_REVISION: &str = "longboat.dev/kv-revision";
/// Routing group of a service, equal to `spec.router.route.group`; also on its managed HTTPRoute.
pub const ROUTING_GROUP: &str = "serving.kserve.io/routing-group";
/// Name of the model cache that holds the service's model.
pub const LOCAL_MODEL: &str = "internal.serving.kserve.io/localmodel";
/// Namespace of a namespaced model cache.
pub const LOCAL_MODEL_NAMESPACE: &str = "internal.serving.kserve.io/localmodel-namespace";

/// The name of a namespace, which the API server sets on each.
pub use longboat_key::names::NAMESPACE_NAME;
/// Name of the Gateway that an implementation created an object for.
pub const GATEWAY_NAME: &str = "gateway.networking.k8s.io/gateway-name";

/// A label of an object.
pub fn value<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// Whether an object is of the service with this name.
pub fn are_of(metadata: &ObjectMeta, service: Name<&str>) -> bool {
    value(metadata, PART_OF) == Some(PART_OF_VALUE) && value(metadata, NAME) == Some(service.as_str())
}

/// Prefixes of label keys that are copied from a service to its workloads.
pub const PROPAGATED_PREFIXES: [&str; 2] = ["kueue.x-k8s.io", "internal.serving.kserve.io/localmodel"];

/// Values of [`COMPONENT`].
pub mod component {
    /// HTTPRoutes.
    pub const ROUTER: &str = "llminferenceservice-router";
    /// The picker and the objects that it needs.
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
    /// Prefills and decodes.
    pub const BOTH: &str = "both";
}
