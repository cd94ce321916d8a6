//! Settings for interpreting manifests: their environment, and defaults for what they do not specify.

use longboat_api::names;
use longboat_compose::PresetNames;
use longboat_key::Namespace;
use longboat_manifest::Document;
use longboat_plan::Capabilities;

/// The namespace of objects without one, as in kubectl.
pub const DEFAULT_NAMESPACE: &str = "default";

/// The platform of a new installation: settings and default Gateway. Local mode installs the same.
pub(crate) const DEFAULT_PLATFORM: &str = include_str!("../../local/src/objects/platform.yaml");

/// Settings for interpreting manifests.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace of objects without one.
    pub namespace: Namespace,
    /// The namespace of presets and platform settings.
    pub system_namespace: Namespace,
    /// How the names of presets are formed.
    pub preset_names: PresetNames,
    /// The available presets.
    pub presets: Presets,
    /// The platform's ConfigMap. Without it, the ConfigMap in the manifests is used, and without that, the one of a new
    /// installation.
    pub platform: Option<Document>,
    /// Which optional APIs the cluster is assumed to serve.
    pub capabilities: Capabilities,
}

/// The available presets.
#[derive(Clone, Debug, Default)]
pub enum Presets {
    /// The presets of this build.
    #[default]
    BuiltIn,
    /// Only the presets in the manifests.
    None,
    /// These presets.
    Given(Vec<Document>),
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: Namespace(DEFAULT_NAMESPACE).to_shared(),
            system_namespace: Namespace(names::DEFAULT_SYSTEM_NAMESPACE).to_shared(),
            preset_names: PresetNames::default(),
            presets: Presets::default(),
            platform: None,
            capabilities: Capabilities::ALL,
        }
    }
}
