//! Errors of composition.

use longboat_api::{
    lora_paths::Collision,
    reasons::{condition, event},
};

use crate::{origin::Origin, warning::Warning};

/// The documentation of adapters. The URL is part of messages that users search for.
pub(crate) const LORA_DOCS: &str =
    "https://github.com/kserve/kserve/blob/master/docs/samples/llmisvc/lora-adapters/README.md";

/// Why layers could not be merged. The messages are KServe's, except those about runtimes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ComposeError {
    /// A config exists neither in the service's namespace nor in the controller's.
    #[error("LLMInferenceServiceConfig \"{name}\" not found in namespaces [{namespace} {system_namespace}]")]
    ConfigNotFound {
        /// The config.
        name: String,
        /// The service's namespace.
        namespace: String,
        /// The controller's namespace.
        system_namespace: String,
    },
    /// The runtime exists neither in the service's namespace nor in the cluster.
    #[error(
        "runtime {name:?} not found: there is neither a ServingRuntime in namespace {namespace} nor a ClusterServingRuntime of \
         that name"
    )]
    RuntimeNotFound {
        /// The runtime.
        name: String,
        /// The service's namespace.
        namespace: String,
    },
    /// The runtime cannot serve the service.
    #[error("{runtime} cannot serve this service: {problem}")]
    RuntimeUnsupported {
        /// Kind and name of the runtime.
        runtime: String,
        /// Why not, and what to do.
        problem: String,
    },
    /// The engine of the runtime cannot have fields of the service.
    #[error("{runtime} cannot serve this service: {}", listed(fields))]
    RefusedFields {
        /// Kind and name of the runtime.
        runtime: String,
        /// The fields.
        fields: Vec<RefusedField>,
    },
    /// A value in a layer does not fit its type.
    #[error("failed to read {layer}: {message}")]
    Layer {
        /// The layer.
        layer: String,
        /// The message of Go's decoder.
        message: String,
    },
    /// Two layers cannot be merged.
    #[error("failed to merge specs: could not apply merge patch: {0}")]
    Merge(String),
    /// The merged text is not a valid template.
    #[error("failed to parse template config: {0}")]
    TemplateSyntax(String),
    /// The template failed for this service.
    #[error("failed to merge config: {0}")]
    TemplateExecution(String),
    /// The output of the template is not a spec.
    #[error("failed to unmarshal config from template: {0}")]
    Rendered(String),
    /// The scheduler refers to a ConfigMap that lacks the key.
    #[error("ConfigMap {namespace}/{name} doesn't have key \"{key}\" in data")]
    SchedulerConfigKey {
        /// Namespace of the ConfigMap.
        namespace: String,
        /// Its name.
        name: String,
        /// The missing key.
        key: String,
    },
    /// The scheduler refers to a ConfigMap that does not exist.
    #[error("ConfigMap \"{name}\" not found in namespaces [{}]", namespaces.join(" "))]
    SchedulerConfigMissing {
        /// The ConfigMap.
        name: String,
        /// The service's namespace, and the controller's for a shared config.
        namespaces: Vec<String>,
    },
    /// A layer sets the variable that is for the generated argument of KV cache offloading.
    #[error(
        "{workload}: container \"main\" sets env KSERVE_KV_TRANSFER_ARGS, which carries the argument generated from \
         kvCacheOffloading; to supply the connector configuration yourself, pass --kv-transfer-config via \
         VLLM_ADDITIONAL_ARGS or the container args"
    )]
    KvTransferSlot {
        /// The pod.
        workload: &'static str,
    },
    /// An adapter cannot be served.
    #[error("failed to enumerate LoRA adapters: LoRA adapter {name:?}: {problem}")]
    Adapter {
        /// The adapter.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Adapters would share a folder.
    #[error("failed to enumerate LoRA adapters: {0}")]
    LoraMountPathCollision(Collision),
}

/// A field that the engine of a service's runtime cannot have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedField {
    /// Its path.
    pub path: &'static str,
    /// The layer that sets it.
    pub origin: Origin,
    /// Why it is refused, and what to use instead.
    pub why: String,
}

fn listed(fields: &[RefusedField]) -> String {
    let sentences = fields.iter().map(|RefusedField { path, origin, why }| match origin {
        Origin::Service => format!("{path} is {why}"),
        layer => format!("{path} of {layer} is {why}"),
    });
    sentences.collect::<Vec<_>>().join("; ")
}

/// When another attempt may succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Only after an input has changed.
    OnChange,
    /// After some time, because the cause may disappear.
    Backoff,
}

impl ComposeError {
    /// The reason of the `PresetsCombined` condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::ConfigNotFound { .. } => condition::CONFIG_NOT_FOUND,
            Self::LoraMountPathCollision(_) => condition::LORA_MOUNT_PATH_COLLISION,
            Self::RuntimeNotFound { .. } => condition::RUNTIME_NOT_FOUND,
            Self::RuntimeUnsupported { .. } | Self::RefusedFields { .. } => condition::RUNTIME_UNSUPPORTED,
            Self::KvTransferSlot { .. } => condition::KV_TRANSFER_SLOT_CONFLICT,
            _ => condition::COMBINE_BASE_ERROR,
        }
    }

    /// The warning event about this error, beside the condition. Few errors have one.
    pub fn event(&self) -> Option<Warning> {
        let reason = match self {
            Self::LoraMountPathCollision(_) => condition::LORA_MOUNT_PATH_COLLISION,
            Self::KvTransferSlot { .. } => event::KV_TRANSFER_SLOT_CONFLICT,
            _ => return None,
        };
        Some(Warning { reason, message: self.to_string() })
    }

    /// When another attempt may succeed.
    pub fn retry(&self) -> Retry {
        match self {
            Self::ConfigNotFound { .. }
            | Self::KvTransferSlot { .. }
            | Self::LoraMountPathCollision(_)
            | Self::RuntimeNotFound { .. }
            | Self::RuntimeUnsupported { .. }
            | Self::RefusedFields { .. } => Retry::OnChange,
            _ => Retry::Backoff,
        }
    }
}
