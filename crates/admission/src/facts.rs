//! The input of admission besides the objects.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::NodeSelectorTerm;
use longboat_api::names::{DEFAULT_PRESET_PREFIX, DEFAULT_SYSTEM_NAMESPACE};
use longboat_compose::{Platform, platform::PlatformError};
use longboat_key::Namespace;

/// The environment of a request. The caller fills it in: the controller from its caches, local mode and `longboat validate`
/// from their inputs.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Namespace of the platform.
    pub system_namespace: Namespace,
    /// Prefix of the names of presets.
    pub preset_prefix: String,
    /// Whether the deletion of the platform's presets is refused.
    pub prevent_preset_deletion: bool,
    /// The platform settings, or why they cannot be used.
    pub platform: Result<Platform, PlatformError>,
    /// Models that are cached on nodes.
    pub local_models: LocalModels,
    /// Whether to warn of configurations with which a picker does not start. Off where the caller judges the composed ones.
    pub judges_pickers: bool,
}

/// Models that are cached on nodes. Only used if the platform enables local models.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LocalModels {
    /// The caches, in the API server's order. `None` if their kinds are not installed.
    pub caches: Option<Vec<ModelCache>>,
    /// The nodes of each `LocalModelNodeGroup`: the terms of which one must be true. A group that is not here may have any nodes.
    pub node_groups: BTreeMap<String, Vec<NodeSelectorTerm>>,
}

/// A `LocalModelCache`, or a `LocalModelNamespaceCache`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelCache {
    /// Its name.
    pub name: String,
    /// Its namespace; `None` for a `LocalModelCache`, which serves the whole cluster.
    pub namespace: Option<Namespace>,
    /// `spec.sourceModelUri`.
    pub source_model_uri: String,
    /// `spec.nodeGroups`.
    pub node_groups: Vec<String>,
    /// Whether the model is on the claim in `spec.pvcRef`, and not on nodes.
    pub is_on_claim: bool,
}

// === impl Facts ===

impl Default for Facts {
    /// Default names and settings. Presets may not be deleted.
    fn default() -> Self {
        Self {
            system_namespace: Namespace(DEFAULT_SYSTEM_NAMESPACE).to_shared(),
            preset_prefix: DEFAULT_PRESET_PREFIX.to_owned(),
            prevent_preset_deletion: true,
            platform: Ok(Platform::default()),
            local_models: LocalModels::default(),
            judges_pickers: true,
        }
    }
}
