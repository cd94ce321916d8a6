//! What composing reads beside the service.

use std::{collections::BTreeMap, path::PathBuf};

use longboat_api::{
    names::{DEFAULT_SYSTEM_NAMESPACE, PLATFORM_CONFIG_MAP},
    v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig},
};
use longboat_compose::{ConfigSet, Inputs, Layer, Platform, PresetNames, presets};
use longboat_manifest::{self as manifest, Document};
use serde_json::Value;

use crate::{OfflineError, Workspace, workspace::namespace_of};

/// The platform that a fresh installation has; local mode installs the same.
const PLATFORM: &str = include_str!("../../local/src/objects/platform.yaml");

/// Where the presets of the platform come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Presets {
    /// From this build.
    #[default]
    Builtin,
    /// From the manifests of a folder or file.
    Folder(PathBuf),
    /// There are none beside those of the manifests.
    None,
}

/// What a cluster would have around the manifests.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// Its presets.
    pub presets: Presets,
    /// File with its settings (ConfigMap `inferenceservice-config`); without one, those of the manifests hold, and
    /// without any, those of a fresh installation.
    pub platform: Option<PathBuf>,
    /// Namespace of the platform.
    pub system_namespace: String,
    /// How its presets are named.
    pub preset_names: PresetNames,
}

/// What composing reads beside the service.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Presets of the platform and configs of the manifests.
    pub configs: ConfigSet,
    /// Data of the ConfigMaps of the manifests, by namespace and name.
    pub config_maps: BTreeMap<(String, String), BTreeMap<String, String>>,
    /// Settings of the platform.
    pub platform: Platform,
    /// Namespace of the platform.
    pub system_namespace: String,
    /// How presets are named.
    pub preset_names: PresetNames,
}

// === impl Surroundings ===

impl Default for Surroundings {
    fn default() -> Self {
        Self {
            presets: Presets::default(),
            platform: None,
            system_namespace: DEFAULT_SYSTEM_NAMESPACE.to_owned(),
            preset_names: PresetNames::default(),
        }
    }
}

impl Surroundings {
    /// The presets as configs, in the namespace of the platform.
    ///
    /// # Errors
    /// When the folder cannot be read or holds what is no config.
    pub fn preset_configs(&self) -> Result<Vec<LLMInferenceServiceConfig>, OfflineError> {
        match &self.presets {
            Presets::None => Ok(Vec::new()),
            Presets::Builtin => Ok(presets::builtin(&self.preset_names, &self.system_namespace)?),
            Presets::Folder(folder) => {
                let documents = manifest::read(std::slice::from_ref(folder))?;
                let configs = Workspace::of(documents).configs;
                let placed = configs.into_iter().map(|mut member| {
                    if member.document.namespace().is_empty() {
                        member.object["metadata"]["namespace"] = Value::from(self.system_namespace.as_str());
                    }
                    member.read()
                });
                placed.collect()
            }
        }
    }

    fn platform(&self, workspace: &Workspace) -> Result<Platform, OfflineError> {
        let is_platform = |document: &&Document| document.name() == PLATFORM_CONFIG_MAP;
        let found = match &self.platform {
            Some(file) => {
                let documents = manifest::read(std::slice::from_ref(file))?;
                let found = documents.iter().find(is_platform).cloned();
                Some(found.ok_or_else(|| OfflineError::NoPlatform {
                    file: file.display().to_string(),
                    name: PLATFORM_CONFIG_MAP,
                })?)
            }
            None => workspace
                .config_maps
                .iter()
                .filter(|document| namespace_of(document) == self.system_namespace)
                .find(is_platform)
                .cloned(),
        };
        let document = if let Some(document) = found {
            document
        } else {
            let file = "the built-in platform";
            let documents = manifest::parse(file, PLATFORM)?;
            let found = documents.into_iter().find(|document| is_platform(&document));
            found.ok_or(OfflineError::NoPlatform { file: file.to_owned(), name: PLATFORM_CONFIG_MAP })?
        };
        Platform::parse(&data_of(&document), &self.system_namespace)
            .map_err(|source| OfflineError::Platform { place: document.place("data"), source })
    }
}

// === impl Context ===

impl Context {
    /// Reads everything. Configs of the manifests replace presets of their name.
    ///
    /// # Errors
    /// The first object that cannot be read.
    pub fn of(workspace: &Workspace, surroundings: &Surroundings) -> Result<Self, OfflineError> {
        let mut configs = ConfigSet::default();
        for preset in surroundings.preset_configs()? {
            let layer = Layer::new(&preset).map_err(|source| OfflineError::Layer {
                place: format!("preset {}", preset.metadata.name.as_deref().unwrap_or_default()),
                source,
            })?;
            configs.insert(layer);
        }
        for member in &workspace.configs {
            let layer = Layer::new(&member.read()?)
                .map_err(|source| OfflineError::Layer { place: member.document.place("spec"), source })?;
            configs.insert(layer);
        }
        let config_maps = workspace
            .config_maps
            .iter()
            .map(|document| {
                let key = (namespace_of(document).to_owned(), document.name().to_owned());
                (key, data_of(document))
            })
            .collect();
        Ok(Self {
            configs,
            config_maps,
            platform: surroundings.platform(workspace)?,
            system_namespace: surroundings.system_namespace.clone(),
            preset_names: surroundings.preset_names.clone(),
        })
    }

    /// What composing one service reads.
    pub fn inputs<'a>(&'a self, service: &'a LLMInferenceService) -> Inputs<'a> {
        Inputs {
            service,
            configs: &self.configs,
            config_maps: &self.config_maps,
            platform: &self.platform,
            system_namespace: &self.system_namespace,
            preset_names: &self.preset_names,
        }
    }
}

/// The texts of a ConfigMap.
fn data_of(document: &Document) -> BTreeMap<String, String> {
    let data = document.object["data"].as_object().into_iter().flatten();
    data.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
