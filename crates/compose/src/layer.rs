//! Layers: configs that were prepared once for merging.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use longboat_api::{
    annotations::INTERNAL_PREFIX, engine::Engine, foreign::servingruntime::ServingRuntimeSpec,
    v1alpha2::LLMInferenceServiceConfig,
};
use longboat_key::{Key, Name, Namespace};
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::{codec, error::ComposeError, origin::Origin, schema};

/// A config or a runtime with a normalised spec. Create the layer when the object changes, not for each composition.
#[derive(Debug)]
pub struct Layer {
    key: Key,
    /// Set if the layer is a runtime.
    pub(crate) runtime: Option<Runtime>,
    spec: Value,
    /// The annotations of the config that are for the controller.
    internal: BTreeMap<String, String>,
    /// If the layer is a runtime: its layers for services that have other pods than those of a single workload.
    by_pods: Mutex<BTreeMap<Pods, Arc<Self>>>,
}

/// Whether a service has workers; and if it has separate prefill, whether that has workers.
type Pods = (bool, Option<bool>);

/// What a layer knows about its runtime.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Runtime {
    /// The engine that the runtime starts.
    pub(crate) engine: Option<&'static Engine>,
    /// Whether services may not use it.
    pub(crate) disabled: bool,
}

impl Layer {
    /// Prepares a config.
    ///
    /// # Errors
    ///
    /// [`ComposeError::Layer`] for values that do not fit their types.
    pub fn new(config: &LLMInferenceServiceConfig) -> Result<Self, ComposeError> {
        let key = Key::of(config);
        let broken =
            |message: String| ComposeError::Layer { layer: Origin::Config(key.clone()).to_string(), message };
        let spec = serde_json::to_value(&config.spec).map_err(|e| broken(e.to_string()))?;
        let layer = Self::from_spec(key.clone(), spec).map_err(broken)?;
        Ok(Self { internal: internal_annotations(config), ..layer })
    }

    /// Prepares a ServingRuntime, or a ClusterServingRuntime, whose metadata has no namespace.
    ///
    /// # Errors
    ///
    /// [`ComposeError::Layer`] for values that do not fit their types.
    pub fn of_runtime(metadata: &ObjectMeta, runtime: &ServingRuntimeSpec) -> Result<Self, ComposeError> {
        let key = Key::of_metadata(metadata);
        let broken = |message: String| ComposeError::Layer {
            layer: Origin::Runtime(key.clone()).to_string(),
            message,
        };
        let spec = serde_json::to_value(runtime.layer()).map_err(|e| broken(e.to_string()))?;
        let facts = Runtime { engine: runtime.engine(), disabled: runtime.disabled == Some(true) };
        let layer = Self::from_spec(key.clone(), spec).map_err(broken)?;
        Ok(Self { runtime: Some(facts), ..layer })
    }

    /// Prepares a spec in JSON.
    pub(crate) fn from_spec(key: Key, spec: Value) -> Result<Self, String> {
        let mut spec = codec::normalise(schema::TYPES.spec, spec)?;
        fill_containers(&mut spec);
        Ok(Self { key, runtime: None, spec, internal: BTreeMap::new(), by_pods: Mutex::default() })
    }

    /// The layer of a runtime for a service with these fields: what the runtime says about its pod applies to all of them. For the
    /// same pods it is the same layer, because caches identify layers by their addresses.
    pub(crate) fn for_pods_of(self: Arc<Self>, service: &Value) -> Arc<Self> {
        let has_worker = |workload: &Value| workload.get("worker").is_some_and(|worker| !worker.is_null());
        let prefill = service.get("prefill").filter(|prefill| !prefill.is_null());
        let pods = (has_worker(service), prefill.map(has_worker));
        if pods == (false, None) {
            return self;
        }
        self.by_pods.lock().entry(pods).or_insert_with(|| Arc::new(self.copied_to(pods))).clone()
    }

    fn copied_to(&self, (has_worker, prefill): Pods) -> Self {
        let mut spec = self.spec.clone();
        let pod = &self.spec["template"];
        if has_worker {
            spec["worker"] = pod.clone();
        }
        if let Some(has_worker) = prefill {
            let mut half = Map::from_iter([("template".to_owned(), pod.clone())]);
            half.extend(
                ["labels", "annotations"]
                    .into_iter()
                    .filter_map(|field| Some((field.to_owned(), self.spec.get(field)?.clone()))),
            );
            if has_worker {
                half.insert("worker".to_owned(), pod.clone());
            }
            spec["prefill"] = half.into();
        }
        let (key, internal) = (self.key.clone(), self.internal.clone());
        Self { key, runtime: self.runtime, spec, internal, by_pods: Mutex::default() }
    }

    /// The name of the config or runtime.
    pub fn name(&self) -> Name<&str> {
        self.key.name.as_deref()
    }

    /// The namespace of the config or runtime. Empty for a ClusterServingRuntime.
    pub fn namespace(&self) -> Namespace<&str> {
        self.key.namespace.as_deref()
    }

    /// The origin of the values that this layer sets.
    pub fn origin(&self) -> Origin {
        match self.runtime {
            Some(_) => Origin::Runtime(self.key.clone()),
            None => Origin::Config(self.key.clone()),
        }
    }

    /// An annotation for the controller. It counts only if the layer is a preset of the platform.
    pub(crate) fn internal_annotation(&self, name: &str) -> Option<&str> {
        self.internal.get(name).map(String::as_str)
    }

    /// The normalised spec, ready to merge.
    pub fn spec(&self) -> &Value {
        &self.spec
    }
}

/// The annotations of a config that are for the controller. A layer has them beside the spec.
pub fn internal_annotations(config: &LLMInferenceServiceConfig) -> BTreeMap<String, String> {
    let annotations = config.metadata.annotations.iter().flatten();
    let internal = annotations.filter(|(name, _)| name.starts_with(INTERNAL_PREFIX));
    internal.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Provides configs and runtimes.
pub trait ConfigSource {
    /// Returns the config `namespace/name`.
    fn get(&self, namespace: Namespace<&str>, name: Name<&str>) -> Option<Arc<Layer>>;

    /// Returns the ServingRuntime `namespace/name`, or the ClusterServingRuntime of that name if the namespace is empty.
    fn runtime(&self, namespace: Namespace<&str>, name: Name<&str>) -> Option<Arc<Layer>>;
}

/// A set of configs and runtimes in memory.
#[derive(Debug, Clone, Default)]
pub struct ConfigSet {
    layers: BTreeMap<Key, Arc<Layer>>,
    runtimes: BTreeMap<Key, Arc<Layer>>,
}

impl ConfigSet {
    /// Adds a config or runtime, or replaces the one with the same name.
    pub fn insert(&mut self, layer: Layer) {
        let layers = if layer.runtime.is_some() { &mut self.runtimes } else { &mut self.layers };
        layers.insert(layer.key.clone(), Arc::new(layer));
    }

    /// The names of the configs in a namespace, in alphabetical order.
    pub fn names(&self, namespace: Namespace<&str>) -> impl Iterator<Item = Name<&str>> {
        let keys = self.layers.keys();
        keys.filter(move |key| key.namespace.as_deref() == namespace).map(|key| key.name.as_deref())
    }

    /// The names of the runtimes that a service in a namespace can have, those of the cluster first.
    pub fn runtime_names(&self, namespace: Namespace<&str>) -> impl Iterator<Item = Name<&str>> {
        let keys = self.runtimes.keys();
        let near = keys.filter(move |key| key.namespace.is_empty() || key.namespace.as_deref() == namespace);
        near.map(|key| key.name.as_deref())
    }

    /// Removes a config.
    pub fn remove(&mut self, namespace: Namespace<&str>, name: Name<&str>) {
        self.layers.remove(&Key::new(namespace, name));
    }
}

impl ConfigSource for ConfigSet {
    fn get(&self, namespace: Namespace<&str>, name: Name<&str>) -> Option<Arc<Layer>> {
        self.layers.get(&Key::new(namespace, name)).cloned()
    }

    fn runtime(&self, namespace: Namespace<&str>, name: Name<&str>) -> Option<Arc<Layer>> {
        self.runtimes.get(&Key::new(namespace, name)).cloned()
    }
}

impl FromIterator<Layer> for ConfigSet {
    fn from_iter<I: IntoIterator<Item = Layer>>(layers: I) -> Self {
        let mut set = Self::default();
        layers.into_iter().for_each(|layer| set.insert(layer));
        set
    }
}

/// Returns the entries of a ConfigMap that are texts. One with bytes only has none.
pub fn texts_of(map: &ConfigMap) -> &BTreeMap<String, String> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    map.data.as_ref().unwrap_or(&NONE)
}

/// Provides the ConfigMaps to which schedulers refer.
pub trait ConfigMapSource {
    /// Returns the texts of the ConfigMap `namespace/name`.
    fn get(&self, namespace: Namespace<&str>, name: Name<&str>) -> Option<&BTreeMap<String, String>>;
}

impl ConfigMapSource for BTreeMap<Key, BTreeMap<String, String>> {
    fn get(&self, namespace: Namespace<&str>, name: Name<&str>) -> Option<&BTreeMap<String, String>> {
        Self::get(self, &Key::new(namespace, name))
    }
}

/// Replaces null containers by an empty list in five pod specs, because null would delete the containers of lower layers. The
/// tokenizer's pod is not among the five.
pub(crate) fn fill_containers(spec: &mut Value) {
    const PODS: [&str; 5] =
        ["/template", "/worker", "/prefill/template", "/prefill/worker", "/router/scheduler/template"];
    for pod in PODS {
        if let Some(containers) = spec.pointer_mut(pod).and_then(|pod| pod.get_mut("containers"))
            && containers.is_null()
        {
            *containers = Value::Array(Vec::new());
        }
    }
}
