//! Settings for interpreting manifests: their environment, and defaults for what they do not specify.

use std::collections::BTreeMap;

use longboat_api::names;
use longboat_compose::{PresetNames, platform::OBJECTS};
use longboat_key::Namespace;
use longboat_manifest::{Document, ManifestError};
use longboat_plan::Capabilities;
use serde_json::Value;

/// The namespace of objects without one, as in kubectl.
pub const DEFAULT_NAMESPACE: &str = "default";

/// The key that a controller requires in the platform's ConfigMap.
const REQUIRED_KEY: &str = "storageInitializer";

/// Adds the key that a controller requires to a platform's ConfigMap that lacks it, with the value of a new installation. So a
/// file with one setting is enough to see what this setting does. Returns the key if it was missing.
///
/// # Errors
/// If the settings of a new installation are broken.
pub fn complete_platform(document: &mut Document) -> Result<Option<&'static str>, ManifestError> {
    // Data that is no map is refused with the document.
    let data = &document.object["data"];
    if !(data.is_object() || data.is_null()) || data.get(REQUIRED_KEY).is_some() {
        return Ok(None);
    }
    let defaults = longboat_manifest::parse("the built-in platform", OBJECTS)?;
    let mut data = defaults.iter().map(|default| &default.object["data"][REQUIRED_KEY]);
    let Some(value) = data.find(|value| !value.is_null()) else { return Ok(None) };
    document.object["data"][REQUIRED_KEY] = value.clone();
    Ok(Some(REQUIRED_KEY))
}

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

/// The entries of a map whose values are texts.
pub(crate) fn texts(map: &Value) -> BTreeMap<String, String> {
    let entries = map.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
