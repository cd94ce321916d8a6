//! Names on which users and other programs rely: finalizers, presets, and the suffixes of children.

/// Finalizer of services.
pub const SERVICE_FINALIZER: &str = "serving.kserve.io/llmisvc-finalizer";
/// Finalizer of configs.
pub const CONFIG_FINALIZER: &str = "serving.kserve.io/llmisvcconfig-finalizer";
/// ConfigMap of the platform, in the system namespace.
pub const PLATFORM_CONFIG_MAP: &str = "inferenceservice-config";
/// Default of the system namespace.
pub const DEFAULT_SYSTEM_NAMESPACE: &str = "kserve";
/// Default prefix of preset names.
pub const DEFAULT_PRESET_PREFIX: &str = "kserve-";
/// The container of an engine, a picker or a tokenizer that presets and services describe.
pub const MAIN_CONTAINER: &str = "main";
/// The metric of the Workload Variant Autoscaler: how many replicas it wants.
pub const WVA_DESIRED_REPLICAS: &str = "wva_desired_replicas";
/// The Deployment of the controller. Its pods have this name as the value of the label `control-plane`.
pub const CONTROLLER: &str = "llmisvc-controller-manager";
/// The Service in front of the controller's metrics.
pub const CONTROLLER_METRICS: &str = "llmisvc-controller-manager-service";
/// The Lease of the controller that leads.
pub const CONTROLLER_LEASE: &str = "llminferenceservice-kserve-controller-manager";
/// The Service in front of the webhooks.
pub const WEBHOOK_SERVICE: &str = "llmisvc-webhook-server-service";
/// The path of the conversion webhook.
pub const CONVERSION_WEBHOOK_PATH: &str = "/convert";
/// The Secret with the CA that the controller creates for its webhooks.
pub const WEBHOOK_CA: &str = "llmisvc-webhook-ca";
/// The key of that Secret with the certificates that clients trust.
pub const WEBHOOK_CA_BUNDLE: &str = "ca.crt";
/// The claim of devices in pods, which annotations of a service ask for.
pub const MANAGED_DEVICE: &str = "managed-device";
/// The init container that downloads models.
pub const STORAGE_INITIALIZER: &str = "storage-initializer";
/// The container that loads LoRA adapters while an engine runs.
pub const ADAPTER_LOADER: &str = "adapter-loader";
/// The ClusterRole that lets a pod ask the API server who its clients are and what they may do.
pub const TOKEN_REVIEWER: &str = "system:auth-delegator";

/// Source of events about services.
pub const SERVICE_EVENT_SOURCE: &str = "LLMInferenceServiceController";
/// Source of events about configs.
pub const CONFIG_EVENT_SOURCE: &str = "LLMInferenceServiceConfigController";

/// Suffixes of the presets that are shipped, in the order of the reference's list.
pub mod preset {
    /// Single-node model server.
    pub const TEMPLATE: &str = "config-llm-template";
    /// Single-node model server of SGLang.
    pub const SGLANG_TEMPLATE: &str = "config-sglang-template";
    /// Single-node decode server.
    pub const DECODE_TEMPLATE: &str = "config-llm-decode-template";
    /// Workers of SGLang on several nodes, beside [`SGLANG_TEMPLATE`].
    pub const SGLANG_WORKER: &str = "config-sglang-worker";
    /// The routing sidecar before SGLang, beside [`SGLANG_TEMPLATE`].
    pub const SGLANG_SIDECAR: &str = "config-sglang-sidecar";
    /// Prefill server of SGLang.
    pub const SGLANG_PREFILL: &str = "config-sglang-prefill-template";
    /// Workers of SGLang's prefill server on several nodes, beside [`SGLANG_PREFILL`].
    pub const SGLANG_PREFILL_WORKER: &str = "config-sglang-prefill-worker";
    /// Single-node model server of TensorRT-LLM.
    pub const TENSORRT_LLM_TEMPLATE: &str = "config-tensorrt-llm-template";
    /// Single-node model server of llama.cpp.
    pub const LLAMA_CPP_TEMPLATE: &str = "config-llama-cpp-template";
    /// Multi-node data-parallel model server.
    pub const WORKER_DATA_PARALLEL: &str = "config-llm-worker-data-parallel";
    /// Multi-node data-parallel decode server.
    pub const DECODE_WORKER_DATA_PARALLEL: &str = "config-llm-decode-worker-data-parallel";
    /// Single-node prefill server.
    pub const PREFILL_TEMPLATE: &str = "config-llm-prefill-template";
    /// Multi-node data-parallel prefill server.
    pub const PREFILL_WORKER_DATA_PARALLEL: &str = "config-llm-prefill-worker-data-parallel";
    /// The picker.
    pub const SCHEDULER: &str = "config-llm-scheduler";
    /// Default configuration of the picker, from version 0.11 of the picker.
    pub const SCHEDULER_CONFIG: &str = "config-llm-scheduler-eppconfig-default";
    /// Default configuration of the picker for separate prefill and decode, from version 0.11 of the picker.
    pub const SCHEDULER_CONFIG_PD: &str = "config-llm-scheduler-eppconfig-default-pd";
    /// The managed route.
    pub const ROUTER_ROUTE: &str = "config-llm-router-route";
    /// Latency predictor beside the picker, for services that pinned it.
    pub const SCHEDULER_LATENCY_PREDICTOR: &str = "config-llm-scheduler-latency-predictor";
    /// The tokenizer service.
    pub const TOKENIZER: &str = "config-llm-tokenizer";
    /// Tracing defaults.
    pub const TRACING: &str = "config-llm-tracing";

    /// The presets that new services pin: the well-known names, without their prefix.
    pub const WELL_KNOWN: [&str; 13] = [
        TEMPLATE,
        SGLANG_TEMPLATE,
        DECODE_TEMPLATE,
        WORKER_DATA_PARALLEL,
        DECODE_WORKER_DATA_PARALLEL,
        PREFILL_TEMPLATE,
        PREFILL_WORKER_DATA_PARALLEL,
        SCHEDULER,
        SCHEDULER_CONFIG,
        SCHEDULER_CONFIG_PD,
        ROUTER_ROUTE,
        TOKENIZER,
        TRACING,
    ];
    /// Presets of engines that the reference does not have. Services do not pin them, as they pin no presets of their own.
    pub const ENGINES: [&str; 6] = [
        SGLANG_WORKER,
        SGLANG_SIDECAR,
        SGLANG_PREFILL,
        SGLANG_PREFILL_WORKER,
        TENSORRT_LLM_TEMPLATE,
        LLAMA_CPP_TEMPLATE,
    ];
    /// Former well-known presets. Only services that pinned them still use them.
    pub const RETIRED: [&str; 1] = [SCHEDULER_LATENCY_PREDICTOR];

    /// Every preset that is shipped.
    pub fn shipped() -> impl Iterator<Item = &'static str> {
        WELL_KNOWN.into_iter().chain(ENGINES).chain(RETIRED)
    }
}

/// Suffixes of the names of children, for [`child_name`](crate::child_name()).
pub mod suffix {
    /// Main Deployment, and the ServiceAccount of a single-node workload.
    pub const MAIN: &str = "-kserve";
    /// Prefill Deployment.
    pub const PREFILL: &str = "-kserve-prefill";
    /// Main LeaderWorkerSet, and its ServiceAccount.
    pub const MULTI_NODE: &str = "-kserve-mn";
    /// Prefill LeaderWorkerSet, and its ServiceAccount.
    pub const MULTI_NODE_PREFILL: &str = "-kserve-mn-prefill";
    /// Role of a single-node workload.
    pub const ROLE: &str = "-kserve-role";
    /// RoleBinding of a single-node workload.
    pub const ROLE_BINDING: &str = "-kserve-rb";
    /// Role of a multi-node workload.
    pub const MULTI_NODE_ROLE: &str = "-kserve-mn-role";
    /// RoleBinding of a multi-node workload.
    pub const MULTI_NODE_ROLE_BINDING: &str = "-kserve-mn-rb";
    /// Service in front of the workload.
    pub const WORKLOAD_SERVICE: &str = "-kserve-workload-svc";
    /// Secret with the self-signed certificate.
    pub const CERTIFICATES: &str = "-kserve-self-signed-certs";
    /// Managed HTTPRoute.
    pub const ROUTE: &str = "-kserve-route";
    /// Managed InferencePool.
    pub const INFERENCE_POOL: &str = "-inference-pool";
    /// Picker Deployment.
    pub const SCHEDULER: &str = "-kserve-router-scheduler";
    /// Service of the picker.
    pub const EPP_SERVICE: &str = "-epp-service";
    /// ServiceAccount of the picker.
    pub const EPP_SERVICE_ACCOUNT: &str = "-epp-sa";
    /// Template of managed device claims.
    pub const MANAGED_DRA: &str = "-managed-dra";
    /// Tokenizer Deployment and Service.
    pub const TOKENIZER: &str = "-tokenizer";
}
