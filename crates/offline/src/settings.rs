//! How manifests are to be understood: what is around them, and what they leave unsaid.

use longboat_api::names;
use longboat_compose::PresetNames;
use longboat_manifest::Document;
use longboat_plan::Capabilities;

/// Namespace of objects that name none, as with kubectl.
pub const DEFAULT_NAMESPACE: &str = "default";

/// The platform that a fresh installation has, settings and default Gateway; local mode installs the same.
pub(crate) const DEFAULT_PLATFORM: &str = include_str!("../../local/src/objects/platform.yaml");

/// How manifests are to be understood.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace of objects that name none.
    pub namespace: String,
    /// Where presets and the platform's settings are.
    pub system_namespace: String,
    /// How presets are named.
    pub preset_names: PresetNames,
    /// Which presets there are.
    pub presets: Presets,
    /// The platform's ConfigMap; without one, that of the manifests holds, and without any, that of a fresh installation.
    pub platform: Option<Document>,
    /// Which optional APIs the cluster is assumed to serve.
    pub capabilities: Capabilities,
}

/// Which presets there are.
#[derive(Clone, Debug, Default)]
pub enum Presets {
    /// Those of this build.
    #[default]
    BuiltIn,
    /// None but those among the manifests.
    None,
    /// These.
    Given(Vec<Document>),
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: DEFAULT_NAMESPACE.to_owned(),
            system_namespace: names::DEFAULT_SYSTEM_NAMESPACE.to_owned(),
            preset_names: PresetNames::default(),
            presets: Presets::default(),
            platform: None,
            capabilities: Capabilities::ALL,
        }
    }
}
