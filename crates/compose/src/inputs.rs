//! The input of composition.

use longboat_api::v1alpha2::LLMInferenceService;
use longboat_key::Namespace;

use crate::{
    layer::{ConfigMapSource, ConfigSource},
    pin::PresetNames,
    platform::Platform,
};

/// The input of composition.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// The service.
    pub service: &'a LLMInferenceService,
    /// The configs and runtimes that the service may use.
    pub configs: &'a dyn ConfigSource,
    /// The ConfigMaps to which its scheduler may refer.
    pub config_maps: &'a dyn ConfigMapSource,
    /// The platform settings.
    pub platform: &'a Platform,
    /// The controller's namespace, which has the presets.
    pub system_namespace: Namespace<&'a str>,
    /// How the names of presets are formed.
    pub preset_names: &'a PresetNames,
}
