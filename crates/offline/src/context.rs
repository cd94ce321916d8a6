//! What composing reads beside the service.

use std::collections::BTreeMap;

use longboat_api::{
    names::PLATFORM_CONFIG_MAP,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig},
};
use longboat_compose::{ConfigSet, Inputs, Layer, Platform, PresetNames, presets};
use longboat_manifest::{self as manifest, Document};
use serde_json::Value;

use crate::{
    OfflineError, Presets, Settings, Workspace, settings::DEFAULT_PLATFORM, workspace::namespace_of,
};

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

// === impl Context ===

impl Context {
    /// Reads everything. Configs of the manifests replace presets of their name.
    ///
    /// # Errors
    /// The first object that cannot be read.
    pub fn of(workspace: &Workspace, settings: &Settings) -> Result<Self, OfflineError> {
        let mut configs = ConfigSet::default();
        for preset in preset_configs(settings)? {
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
            platform: platform(settings, workspace)?,
            system_namespace: settings.system_namespace.clone(),
            preset_names: settings.preset_names.clone(),
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

/// The presets as configs, in the namespace of the platform.
fn preset_configs(settings: &Settings) -> Result<Vec<LLMInferenceServiceConfig>, OfflineError> {
    match &settings.presets {
        Presets::None => Ok(Vec::new()),
        Presets::BuiltIn => Ok(presets::builtin(&settings.preset_names, &settings.system_namespace)?),
        Presets::Given(documents) => {
            let placed = Workspace::of(documents.clone()).configs.into_iter().map(|mut member| {
                if member.document.namespace().is_empty() {
                    member.object["metadata"]["namespace"] = Value::from(settings.system_namespace.as_str());
                }
                member.read()
            });
            placed.collect()
        }
    }
}

/// The settings of the platform that holds around these manifests.
fn platform(settings: &Settings, workspace: &Workspace) -> Result<Platform, OfflineError> {
    let is_platform = |document: &&Document| document.name() == PLATFORM_CONFIG_MAP;
    let mut theirs = workspace
        .config_maps
        .iter()
        .filter(|document| namespace_of(document) == settings.system_namespace)
        .filter(is_platform);
    let built_in;
    let document = if let Some(document) = settings.platform.as_ref().or_else(|| theirs.next()) {
        document
    } else {
        built_in = manifest::parse("the built-in platform", DEFAULT_PLATFORM)?;
        built_in.iter().find(is_platform).ok_or(OfflineError::NoPlatform { name: PLATFORM_CONFIG_MAP })?
    };
    Platform::parse(&data_of(document), &settings.system_namespace)
        .map_err(|source| OfflineError::Platform { place: document.place("data"), source })
}

/// The texts of a ConfigMap.
fn data_of(document: &Document) -> BTreeMap<String, String> {
    let data = document.object["data"].as_object().into_iter().flatten();
    data.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
