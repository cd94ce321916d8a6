//! A scene: the services in manifests, their layers, and everything else on which the controller's plan would depend.

mod add;
mod apply;
mod error;
mod plan;

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use k8s_openapi::jiff::Timestamp;
use longboat_admission::MergedSpecs;
use longboat_api::{
    names,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig},
};
use longboat_compose::{
    Composer, ConfigSet, ConfigSource, Effective, Layer, Origin, Platform, PresetNames, platform::OBJECTS,
    presets,
};
use longboat_key::{Key, Name, Namespace, nearest};
use longboat_manifest::Document;
use longboat_plan::Snapshot;
use serde_json::json;

use crate::{
    finding::Finding,
    settings::{Presets, Settings, texts},
    stored::{Cluster, StoredManifest},
};

pub(crate) use add::completed;
pub use apply::merge_manifest;
pub use error::{PlanningError, SceneError};
pub use plan::PlannedService;

/// The uid of a service that is not stored in an API server. It is in the owner references of its children.
pub(crate) const NO_UID: &str = "00000000-0000-0000-0000-000000000000";

const CONFIG: &str = "LLMInferenceServiceConfig";

/// One service of a scene.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The service as the controller would see it: in its stored form, with a uid.
    pub service: Arc<LLMInferenceService>,
    /// Whether the service comes from a manifest, and not from the cluster.
    pub given: bool,
}

/// A cluster, completely known and in memory.
#[derive(Debug)]
pub struct Scene {
    /// Its services, in the order of the manifests, or by namespace and name.
    pub subjects: Vec<Subject>,
    /// How the names of presets are formed.
    pub preset_names: PresetNames,
    /// The findings of API server and webhooks about the manifests. Refused objects are not part of the scene.
    pub findings: Vec<Finding>,
    configs: ConfigSet,
    snapshot: Snapshot,
    composer: Composer,
    merged: MergedSpecs,
    /// The manifests by kind, namespace and name, to find the positions of their fields.
    documents: BTreeMap<(String, Key), Document>,
    /// Whether objects exist to which the manifests refer and that they do not contain.
    assuming: bool,
    /// Copies with other settings of the platform, by the setting.
    changed_platforms: OnceLock<Vec<(&'static str, Self)>>,
}

/// The state of a cluster.
#[derive(Clone, Debug)]
pub struct ObservedCluster {
    /// Its services.
    pub services: Vec<Arc<LLMInferenceService>>,
    /// Its configs.
    pub configs: Vec<Arc<LLMInferenceServiceConfig>>,
    /// Everything else, of all namespaces, including the platform settings.
    pub snapshot: Snapshot,
    /// How the controller forms the names of presets.
    pub preset_names: PresetNames,
}

// === impl Subject ===

impl Subject {
    /// Whether the service has this name.
    pub(crate) fn has(&self, key: &Key) -> bool {
        let metadata = &self.service.metadata;
        Namespace::of(metadata) == key.namespace.as_deref() && Name::of(metadata) == key.name.as_deref()
    }
}

// === impl Scene ===

impl Scene {
    /// Creates a scene from manifests alone. Objects exist by assumption if the manifests refer to them and do not contain
    /// them.
    ///
    /// # Errors
    /// If settings cannot be used, or an accepted object does not match its kind.
    pub fn new(documents: &[Document], settings: &Settings) -> Result<Self, SceneError> {
        let mut scene = Self::fresh(settings)?;
        scene.overlay(documents, settings)?;
        Ok(scene)
    }

    /// Creates a scene with only the objects of an installation.
    pub(crate) fn fresh(settings: &Settings) -> Result<Self, SceneError> {
        let system = settings.system_namespace.as_deref();
        let defaults = longboat_manifest::parse("the built-in platform", OBJECTS)
            .map_err(|error| SceneError::Default(error.to_string()))?;
        let mut snapshot = Snapshot::empty(
            // What a command prints must not depend on the day on which it runs.
            Timestamp::UNIX_EPOCH,
            Arc::new(Platform::default()),
            settings.system_namespace.clone(),
        );
        snapshot.capabilities = settings.capabilities;
        let mut scene = Self::of(ConfigSet::default(), snapshot, settings.preset_names.clone(), true);
        let cluster = Cluster::of(&defaults, settings, None);
        match &settings.presets {
            Presets::BuiltIn => {
                scene.add_presets(settings)?;
                for runtime in presets::runtimes()? {
                    scene.configs.insert(Layer::of_runtime(&runtime.metadata, &runtime.spec)?);
                }
            }
            Presets::None => {}
            Presets::Given(documents) => {
                let is_config = |document: &&Document| {
                    matches!(document.kind(), "LLMInferenceServiceConfig" | "ClusterServingRuntime")
                };
                for document in documents.iter().filter(is_config) {
                    scene.admit(&cluster, document, Some(system))?;
                }
            }
        }
        for document in &defaults {
            let mut document = document.clone();
            // The namespace of the platform is a setting.
            if document.namespace() == names::DEFAULT_SYSTEM_NAMESPACE {
                document.object["metadata"]["namespace"] = json!(*system);
            }
            scene.admit(&cluster, &document, Some(system))?;
        }
        // Places in the objects of an installation mean nothing to users.
        scene.documents.clear();
        Ok(scene)
    }

    /// Creates a scene from a cluster.
    ///
    /// # Errors
    /// If a config cannot be used as a layer.
    pub fn observed(observed: ObservedCluster) -> Result<Self, SceneError> {
        let ObservedCluster { services, configs, snapshot, preset_names } = observed;
        let mut set = ConfigSet::default();
        for config in configs {
            set.insert(Layer::new(&config)?);
        }
        for runtime in snapshot.serving_runtimes.iter() {
            set.insert(Layer::of_runtime(&runtime.metadata, &runtime.spec)?);
        }
        for runtime in snapshot.cluster_serving_runtimes.iter() {
            set.insert(Layer::of_runtime(&runtime.metadata, &runtime.spec)?);
        }
        let subjects = services
            .iter()
            .map(|service| Subject { service: Arc::new(completed(service.as_ref().clone())), given: false });
        Ok(Self { subjects: subjects.collect(), ..Self::of(set, snapshot, preset_names, false) })
    }

    /// Creates a scene without services.
    fn of(configs: ConfigSet, snapshot: Snapshot, preset_names: PresetNames, assuming: bool) -> Self {
        Self {
            subjects: Vec::new(),
            preset_names,
            findings: Vec::new(),
            configs,
            snapshot,
            composer: Composer::default(),
            merged: MergedSpecs::default(),
            documents: BTreeMap::new(),
            assuming,
            changed_platforms: OnceLock::new(),
        }
    }

    /// Adds manifests to the scene, as if they were applied. Leaves out objects that an API server or the webhooks would
    /// refuse: [`Scene::findings`] has the reasons.
    ///
    /// # Errors
    /// Like [`Scene::new`].
    pub fn overlay(&mut self, documents: &[Document], settings: &Settings) -> Result<(), SceneError> {
        let applied: Vec<Document>;
        // Without a cluster, there is no object that somebody has applied before.
        let documents = if self.assuming {
            documents
        } else {
            let stored = |document| self.applied(document, settings).unwrap_or_else(|| document.clone());
            applied = documents.iter().map(stored).collect();
            &applied
        };
        let platform =
            settings_among(documents, settings).or_else(|| Some(self.snapshot.platform.as_ref().clone()));
        let cluster = Cluster::of(documents, settings, platform);
        for judged in cluster.judge_all(documents) {
            self.findings.extend(judged.findings);
            if let Some(stored) = judged.stored {
                self.add(stored)?;
            }
        }
        self.settle(settings)
    }

    /// Creates a scene from a cluster, with this build's controller and presets. Presets with the same names are replaced,
    /// and everything else stays. `controller_image` is the image of the new controller, if it changes. Every service counts as given by
    /// a manifest.
    ///
    /// # Errors
    /// If a preset of this build is broken, or a config cannot be used as a layer.
    pub fn upgraded(
        observed: ObservedCluster,
        settings: &Settings,
        controller_image: Option<&str>,
    ) -> Result<Self, SceneError> {
        let mut scene = Self::observed(observed)?;
        // The controller makes no children for a service that is being deleted.
        scene.subjects.retain(|subject| subject.service.metadata.deletion_timestamp.is_none());
        scene.add_presets(settings)?;
        scene.preset_names = settings.preset_names.clone();
        if let Some(image) = controller_image {
            let mut platform = Platform::clone(&scene.snapshot.platform);
            platform.controller_image = Some(image.to_owned());
            scene.snapshot.platform = Arc::new(platform);
        }
        scene.settle(settings)?;
        for subject in &mut scene.subjects {
            subject.given = true;
        }
        Ok(scene)
    }

    /// Adds the presets of this build.
    fn add_presets(&mut self, settings: &Settings) -> Result<(), SceneError> {
        let cluster = Cluster::of(&[], settings, None);
        for preset in presets::documents(&settings.preset_names, settings.system_namespace.as_deref())? {
            let preset: LLMInferenceServiceConfig = serde_json::from_value(cluster.complete(preset))
                .map_err(|error| SceneError::Default(error.to_string()))?;
            self.configs.insert(Layer::new(&preset)?);
        }
        Ok(())
    }

    /// Adds stored objects.
    pub(crate) fn hold(
        &mut self,
        stored: Vec<StoredManifest>,
        settings: &Settings,
    ) -> Result<(), SceneError> {
        for one in stored {
            self.add(one)?;
        }
        self.settle(settings)
    }

    /// Loads the current platform settings.
    fn settle(&mut self, settings: &Settings) -> Result<(), SceneError> {
        if let Some(document) = &settings.platform {
            let mut document = document.clone();
            document.object["metadata"]["namespace"] = json!(*self.snapshot.system_namespace);
            document.object["metadata"]["name"] = json!(names::PLATFORM_CONFIG_MAP);
            self.admit(&Cluster::of(&[], settings, None), &document, None)?;
        }
        let system = self.snapshot.system_namespace.clone();
        if let Some(found) =
            self.snapshot.config_maps.get(system.as_deref(), Name(names::PLATFORM_CONFIG_MAP))
        {
            let data = found.data.clone().unwrap_or_default();
            // A controller knows its image from its own pod, so the settings must not take it away.
            let image = self.snapshot.platform.controller_image.clone();
            self.snapshot.platform =
                Arc::new(Platform::parse_for(&data, system.as_deref(), image.as_deref())?);
        }
        Ok(())
    }

    /// Adds one manifest if it is accepted.
    fn admit(
        &mut self,
        cluster: &Cluster,
        document: &Document,
        namespace: Option<Namespace<&str>>,
    ) -> Result<(), SceneError> {
        let judged = cluster.judge(document, namespace);
        self.findings.extend(judged.findings);
        judged.stored.map_or(Ok(()), |stored| self.add(stored))
    }

    /// Returns the service with that name.
    pub(crate) fn subject(&self, key: &Key) -> Option<&Subject> {
        self.subjects.iter().find(|subject| subject.has(key))
    }

    /// Whether a config with that name exists.
    pub(crate) fn has_config(&self, namespace: Namespace<&str>, name: Name<&str>) -> bool {
        self.configs.get(namespace, name).is_some()
    }

    /// The names of the platform's configs.
    pub(crate) fn preset_configs(&self) -> Vec<String> {
        self.configs.names(self.snapshot.system_namespace.as_deref()).map(|name| name.to_string()).collect()
    }

    /// Returns the runtime that a service probably means by a name that no runtime has.
    pub(crate) fn nearest_runtime(&self, namespace: Namespace<&str>, name: &str) -> Option<&str> {
        let known = || self.configs.runtime_names(namespace).map(|name| name.0);
        let has_all_parts = |known: &&str| name.split('-').all(|part| known.split('-').any(|of| of == part));
        // People leave words out: `sglang` means `kserve-llm-sglang`, unless several runtimes have the word.
        let mut with_all = known().filter(has_all_parts);
        nearest(known(), name).or_else(|| with_all.next().filter(|_| with_all.next().is_none()))
    }

    /// Whether a finding about the manifests is an error.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(Finding::is_error)
    }

    /// The snapshot: the platform settings and all other observed objects.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Returns copies of the scene with other settings of the platform. They are made once, because each keeps what its composer
    /// has merged.
    pub(crate) fn changed_platforms(
        &self,
        change: impl Fn(&Platform) -> Vec<(&'static str, Platform)>,
    ) -> &[(&'static str, Self)] {
        self.changed_platforms.get_or_init(|| {
            let changed = change(&self.snapshot.platform).into_iter().map(|(words, platform)| {
                let mut snapshot = self.snapshot.clone();
                snapshot.platform = Arc::new(platform);
                let scene =
                    Self::of(self.configs.clone(), snapshot, self.preset_names.clone(), self.assuming);
                (words, Self { merged: self.merged.clone(), ..scene })
            });
            changed.collect()
        })
    }

    /// Returns the manifest of an object.
    pub fn document(&self, kind: &str, key: &Key) -> Option<&Document> {
        self.documents.get(&(kind.to_owned(), key.clone()))
    }

    /// The configs in the manifests, by namespace and name.
    pub(crate) fn given_configs(&self) -> impl Iterator<Item = &Key> {
        self.documents.keys().filter(|(kind, _)| kind == CONFIG).map(|(_, key)| key)
    }

    /// Returns the manifest of a config.
    pub(crate) fn config_document(&self, key: &Key) -> Option<&Document> {
        self.document(CONFIG, key)
    }

    /// Returns the manifests of the configs of which a service was composed, the highest layer first.
    pub(crate) fn layer_documents(&self, effective: &Effective) -> impl Iterator<Item = (Key, &Document)> {
        effective.applied.iter().rev().filter_map(|config| {
            let key = Key::new(Namespace(&*config.namespace), Name(&*config.name));
            let document = self.config_document(&key)?;
            Some((key, document))
        })
    }

    /// Returns the manifest of the layer that set a field of the service with this manifest.
    pub(crate) fn document_of<'a>(&'a self, origin: &Origin, service: &'a Document) -> Option<&'a Document> {
        match origin {
            Origin::Config(key) => self.config_document(key),
            Origin::Runtime(key) => self.runtime_document(key),
            Origin::Service | Origin::Derived => Some(service),
        }
    }

    /// Returns the manifest of a runtime.
    pub(crate) fn runtime_document(&self, key: &Key) -> Option<&Document> {
        let kind = if key.namespace.is_empty() { "ClusterServingRuntime" } else { "ServingRuntime" };
        self.document(kind, key)
    }
}

/// Returns the platform settings from `settings` or from the manifests, if they can be parsed.
pub(crate) fn settings_among(documents: &[Document], settings: &Settings) -> Option<Platform> {
    let system = settings.system_namespace.as_deref();
    let is_platform = |document: &&Document| {
        document.kind() == "ConfigMap"
            && document.name() == names::PLATFORM_CONFIG_MAP
            && document.namespace() == system.as_str()
    };
    let document = settings.platform.as_ref().or_else(|| documents.iter().find(is_platform))?;
    Platform::parse(&texts(document.object.get("data")?), system).ok()
}
