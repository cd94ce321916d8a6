//! Why layers could not be combined.

use longboat_api::reasons::condition;

/// Where adapters are documented; part of messages that users search for.
pub(crate) const LORA_DOCS: &str =
    "https://github.com/kserve/kserve/blob/master/docs/samples/llmisvc/lora-adapters/README.md";

/// Why layers could not be combined. The messages are KServe's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ComposeError {
    /// A config is in neither namespace.
    #[error("LLMInferenceServiceConfig \"{name}\" not found in namespaces [{namespace} {system_namespace}]")]
    ConfigNotFound {
        /// The config.
        name: String,
        /// The service's namespace.
        namespace: String,
        /// The controller's namespace.
        system_namespace: String,
    },
    /// A layer does not have the types of a spec.
    #[error("failed to read {layer}: {message}")]
    Layer {
        /// Which layer.
        layer: String,
        /// What Go's decoder would say.
        message: String,
    },
    /// Two layers cannot be merged.
    #[error("failed to merge specs: could not apply merge patch: {0}")]
    Merge(String),
    /// The merged text is no template.
    #[error("failed to parse template config: {0}")]
    TemplateSyntax(String),
    /// The template failed on this service.
    #[error("failed to merge config: {0}")]
    TemplateExecution(String),
    /// What the template printed is no spec.
    #[error("failed to unmarshal config from template: {0}")]
    Rendered(String),
    /// A scheduler config names a ConfigMap that lacks it.
    #[error("ConfigMap {namespace}/{name} doesn't have key \"{key}\" in data")]
    SchedulerConfigKey {
        /// Namespace of the ConfigMap.
        namespace: String,
        /// Its name.
        name: String,
        /// The missing key.
        key: String,
    },
    /// A scheduler config names a ConfigMap that does not exist.
    #[error("failed to get ConfigMap {namespace}/{name}: configmaps \"{name}\" not found")]
    SchedulerConfigMissing {
        /// The service's namespace, or the controller's for a shared config.
        namespace: String,
        /// The ConfigMap.
        name: String,
    },
    /// An adapter cannot be served.
    #[error("failed to enumerate LoRA adapters: LoRA adapter {name:?}: {problem}")]
    Adapter {
        /// The adapter.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The annotations that ask for managed devices make no sense.
    #[error("invalid managed DRA annotations: {0}")]
    Devices(String),
}

/// What makes another attempt worthwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Nothing until an input changes.
    OnChange,
    /// Time: the cause may go away.
    Backoff,
}

impl ComposeError {
    /// The reason of the `PresetsCombined` condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::ConfigNotFound { .. } => condition::CONFIG_NOT_FOUND,
            _ => condition::COMBINE_BASE_ERROR,
        }
    }

    /// When to try again.
    pub fn retry(&self) -> Retry {
        match self {
            Self::ConfigNotFound { .. } => Retry::OnChange,
            _ => Retry::Backoff,
        }
    }
}
