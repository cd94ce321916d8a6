//! Layers: configs that were prepared once for merging.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use longboat_api::v1alpha2::LLMInferenceServiceConfig;
use longboat_template::Template;
use serde_json::Value;

use crate::{codec, compose::fill_containers, error::ComposeError, leaf, schema};

/// A config with a normalised spec and parsed templates. Create the layer when the config changes, not for each composition.
#[derive(Debug)]
pub struct Layer {
    name: String,
    namespace: String,
    spec: Value,
    templates: Templates,
    templated_keys: bool,
}

/// Parsed templates by their source.
pub(crate) type Templates = HashMap<Box<str>, Arc<Template>, ahash::RandomState>;

impl Layer {
    /// Prepares a config.
    ///
    /// # Errors
    ///
    /// [`ComposeError::Layer`] for values that do not fit their types.
    pub fn new(config: &LLMInferenceServiceConfig) -> Result<Self, ComposeError> {
        let name = config.metadata.name.clone().unwrap_or_default();
        let namespace = config.metadata.namespace.clone().unwrap_or_default();
        let broken = |message: String| ComposeError::Layer {
            layer: format!("LLMInferenceServiceConfig {namespace}/{name}"),
            message,
        };
        let spec = serde_json::to_value(&config.spec).map_err(|e| broken(e.to_string()))?;
        Self::from_spec(&name, &namespace, spec).map_err(broken)
    }

    /// Prepares a spec in JSON.
    pub(crate) fn from_spec(name: &str, namespace: &str, spec: Value) -> Result<Self, String> {
        let mut spec = codec::normalise(schema::SPEC, spec)?;
        fill_containers(&mut spec);
        let mut templates = Templates::default();
        leaf::for_each_template(&spec, &mut |text| {
            if let Some(template) = leaf::parse(text) {
                templates.insert(text.into(), Arc::new(template));
            }
        });
        Ok(Self {
            templated_keys: leaf::has_templated_key(&spec),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            spec,
            templates,
        })
    }

    /// The config's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The config's namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The normalised spec, ready to merge.
    pub fn spec(&self) -> &Value {
        &self.spec
    }

    pub(crate) fn templates(&self) -> &Templates {
        &self.templates
    }

    /// Whether a key of the spec contains a template.
    pub(crate) fn has_templated_keys(&self) -> bool {
        self.templated_keys
    }
}

/// Provides configs.
pub trait ConfigSource {
    /// Returns the config `namespace/name`.
    fn get(&self, namespace: &str, name: &str) -> Option<Arc<Layer>>;
}

/// A set of configs in memory.
#[derive(Debug, Clone, Default)]
pub struct ConfigSet {
    layers: BTreeMap<(String, String), Arc<Layer>>,
}

impl ConfigSet {
    /// Adds a config, or replaces the one with the same name.
    pub fn insert(&mut self, layer: Layer) {
        self.layers.insert((layer.namespace.clone(), layer.name.clone()), Arc::new(layer));
    }

    /// Removes a config.
    pub fn remove(&mut self, namespace: &str, name: &str) {
        self.layers.remove(&(namespace.to_owned(), name.to_owned()));
    }
}

impl ConfigSource for ConfigSet {
    fn get(&self, namespace: &str, name: &str) -> Option<Arc<Layer>> {
        self.layers.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }
}

impl FromIterator<Layer> for ConfigSet {
    fn from_iter<I: IntoIterator<Item = Layer>>(layers: I) -> Self {
        let mut set = Self::default();
        layers.into_iter().for_each(|layer| set.insert(layer));
        set
    }
}

/// Provides the ConfigMaps to which schedulers refer.
pub trait ConfigMapSource {
    /// Returns the data of the ConfigMap `namespace/name`.
    fn get(&self, namespace: &str, name: &str) -> Option<&BTreeMap<String, String>>;
}

/// Provides no ConfigMaps.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoConfigMaps;

impl ConfigMapSource for NoConfigMaps {
    fn get(&self, _: &str, _: &str) -> Option<&BTreeMap<String, String>> {
        None
    }
}

impl ConfigMapSource for BTreeMap<(String, String), BTreeMap<String, String>> {
    fn get(&self, namespace: &str, name: &str) -> Option<&BTreeMap<String, String>> {
        Self::get(self, &(namespace.to_owned(), name.to_owned()))
    }
}
