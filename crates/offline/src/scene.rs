//! The world that manifests describe: services, the layers they can see, and what else the controller would look at.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta, jiff::Timestamp};
use longboat_api::{
    annotations, defaulting, names,
    v1alpha2::{GROUP, LLMInferenceService, LLMInferenceServiceConfig, LLMInferenceServiceSpec},
};
use longboat_compose::{
    ComposeError, Composer, ConfigMapSource, ConfigSet, Effective, Inputs, Layer, Platform, PresetNames,
    Warning, go, platform::PlatformError, presets,
};
use longboat_manifest::Document;
use longboat_plan::{Objects, Plan, PlanError, Snapshot};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use thiserror::Error;

use crate::{
    assume,
    settings::{DEFAULT_PLATFORM, Presets, Settings},
    workspace::Member,
};

/// The uid of a service that no API server has seen. Owner references of its children show it.
pub const NO_UID: &str = "00000000-0000-0000-0000-000000000000";

/// Manifests that make no world.
#[derive(Debug, Error)]
pub enum SceneError {
    /// An object does not have the form of its kind.
    #[error("{place}: {kind} {namespace}/{name}: {message}")]
    Object {
        /// File, line and column.
        place: String,
        /// The kind.
        kind: String,
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// The platform's settings cannot be used.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// A config cannot be used as a layer.
    #[error(transparent)]
    Layer(#[from] ComposeError),
    /// A preset of this build is broken.
    #[error(transparent)]
    Preset(#[from] presets::BrokenPreset),
    /// The built-in platform's settings are broken.
    #[error("the default settings of the platform cannot be read: {0}")]
    Default(String),
}

/// Why a service has no children to show.
#[derive(Debug, Error)]
pub enum PlanningError {
    /// Its layers do not combine.
    #[error(transparent)]
    Compose(#[from] ComposeError),
    /// It cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// One service of a scene.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The service as the controller would see it: with defaults, and a uid.
    pub service: Arc<LLMInferenceService>,
    /// Whether a manifest brought it, and not the cluster.
    pub given: bool,
}

/// A world of which everything is known.
#[derive(Debug)]
pub struct Scene {
    /// Its services, in the order in which they were given, or by namespace and name.
    pub subjects: Vec<Subject>,
    /// How presets are named.
    pub preset_names: PresetNames,
    configs: ConfigSet,
    snapshot: Snapshot,
    composer: Composer,
    /// Objects that were given, by kind, namespace and name, for the places of their fields.
    documents: BTreeMap<(String, String, String), Document>,
    /// Whether what the manifests refer to and do not hold is taken for granted.
    assuming: bool,
}

/// What the controller would do for a service.
#[derive(Debug)]
pub struct Planned {
    /// The composed spec, with its history; none for a stopped service whose layers do not combine.
    pub effective: Option<Effective>,
    /// The children, and what goes.
    pub plan: Plan,
    /// The world in which they were planned.
    pub snapshot: Snapshot,
    /// What was taken for granted, one sentence each.
    pub assumed: Vec<String>,
}

/// A world as a cluster has it.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Its services.
    pub services: Vec<Arc<LLMInferenceService>>,
    /// Its configs.
    pub configs: Vec<Arc<LLMInferenceServiceConfig>>,
    /// Everything else, of all namespaces; with the platform's settings.
    pub snapshot: Snapshot,
    /// How the controller names presets.
    pub preset_names: PresetNames,
}

struct Lookup<'a>(&'a Objects<k8s_openapi::api::core::v1::ConfigMap>);

impl ConfigMapSource for Lookup<'_> {
    fn get(&self, namespace: &str, name: &str) -> Option<&BTreeMap<String, String>> {
        self.0.get(namespace, name)?.data.as_ref()
    }
}

// === impl Scene ===

impl Scene {
    /// The world of manifests alone. What they refer to and do not hold is assumed to exist.
    ///
    /// # Errors
    /// When an object does not have the form of its kind, or settings cannot be used.
    pub fn new(documents: &[Document], settings: &Settings) -> Result<Self, SceneError> {
        let system = settings.system_namespace.as_str();
        let defaults = longboat_manifest::parse("the built-in platform", DEFAULT_PLATFORM)
            .map_err(|error| SceneError::Default(error.to_string()))?;
        let mut snapshot = Snapshot::empty(
            Timestamp::UNIX_EPOCH,
            Arc::new(Platform::default()),
            settings.system_namespace.clone(),
        );
        snapshot.capabilities = settings.capabilities;
        let mut scene = Self {
            subjects: Vec::new(),
            preset_names: settings.preset_names.clone(),
            configs: ConfigSet::default(),
            snapshot,
            composer: Composer::default(),
            documents: BTreeMap::new(),
            assuming: true,
        };
        match &settings.presets {
            Presets::BuiltIn => {
                for preset in presets::builtin(&settings.preset_names, system)? {
                    scene.configs.insert(Layer::new(&preset)?);
                }
            }
            Presets::None => {}
            Presets::Given(documents) => {
                for document in
                    documents.iter().filter(|document| is_ours(document, "LLMInferenceServiceConfig"))
                {
                    scene.add(document, system)?;
                }
            }
        }
        for document in &defaults {
            let mut document = document.clone();
            // Where the platform is installed is a setting.
            if document.namespace() == names::DEFAULT_SYSTEM_NAMESPACE {
                document.object["metadata"]["namespace"] = json!(system);
            }
            scene.add_other(&document, system)?;
        }
        scene.documents.clear();
        scene.overlay(documents, settings)?;
        Ok(scene)
    }

    /// The world of a cluster.
    ///
    /// # Errors
    /// When a config cannot be used as a layer.
    pub fn observed(observed: Observed) -> Result<Self, SceneError> {
        let Observed { services, configs, snapshot, preset_names } = observed;
        let mut set = ConfigSet::default();
        for config in configs {
            set.insert(Layer::new(&config)?);
        }
        let subjects = services
            .iter()
            .map(|service| Subject { service: Arc::new(completed(service.as_ref().clone())), given: false });
        Ok(Self {
            subjects: subjects.collect(),
            preset_names,
            configs: set,
            snapshot,
            composer: Composer::default(),
            documents: BTreeMap::new(),
            assuming: false,
        })
    }

    /// Adds manifests to the world, as applying them would.
    ///
    /// # Errors
    /// As [`Scene::new`].
    pub fn overlay(&mut self, documents: &[Document], settings: &Settings) -> Result<(), SceneError> {
        for document in documents {
            self.add(document, &settings.namespace)?;
        }
        if let Some(document) = &settings.platform {
            let mut document = document.clone();
            document.object["metadata"]["namespace"] = json!(self.snapshot.system_namespace);
            document.object["metadata"]["name"] = json!(names::PLATFORM_CONFIG_MAP);
            self.add(&document, &settings.namespace)?;
        }
        let system = self.snapshot.system_namespace.clone();
        if let Some(found) = self.snapshot.config_maps.get(&system, names::PLATFORM_CONFIG_MAP) {
            let data = found.data.clone().unwrap_or_default();
            self.snapshot.platform = Arc::new(Platform::parse(&data, &system)?);
        }
        Ok(())
    }

    /// The platform's settings and all else that was observed.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The same world under other settings of the platform.
    pub(crate) fn with_platform(&self, platform: Arc<Platform>) -> Self {
        Self {
            subjects: Vec::new(),
            preset_names: self.preset_names.clone(),
            configs: self.configs.clone(),
            snapshot: Snapshot { platform, ..self.snapshot.clone() },
            composer: Composer::default(),
            documents: BTreeMap::new(),
            assuming: self.assuming,
        }
    }

    /// The object that a manifest gave.
    pub fn document(&self, kind: &str, namespace: &str, name: &str) -> Option<&Document> {
        self.documents.get(&(kind.to_owned(), namespace.to_owned(), name.to_owned()))
    }

    /// Composes a service.
    ///
    /// # Errors
    /// See [`ComposeError`].
    pub fn compose(&self, service: &LLMInferenceService) -> Result<Effective, ComposeError> {
        self.composer.compose(&self.inputs(service, &Lookup(&self.snapshot.config_maps)))
    }

    /// What there is to say about a service's layers although they combine, besides what composing itself says.
    pub fn layer_warnings(&self, service: &LLMInferenceService, effective: &Effective) -> Vec<Warning> {
        self.composer.layer_warnings(&self.inputs(service, &Lookup(&self.snapshot.config_maps)), effective)
    }

    fn inputs<'a>(&'a self, service: &'a LLMInferenceService, config_maps: &'a Lookup<'a>) -> Inputs<'a> {
        Inputs {
            service,
            configs: &self.configs,
            config_maps,
            platform: &self.snapshot.platform,
            system_namespace: &self.snapshot.system_namespace,
            preset_names: &self.preset_names,
        }
    }

    /// What the controller would do for a service: the same composition, the same plan.
    ///
    /// # Errors
    /// When the layers do not combine.
    pub fn plan(&self, service: &LLMInferenceService) -> Result<Planned, PlanningError> {
        let effective = match self.compose(service) {
            Ok(effective) => Some(effective),
            // Nothing hinders the removal of a stopped service.
            Err(_) if annotations::is_stopped(service.metadata.annotations.as_ref()) => None,
            Err(error) => return Err(error.into()),
        };
        let spec = effective.as_ref().map_or(&service.spec, |effective| &effective.spec);
        let (plan, snapshot, assumed) = self.plan_spec(service, spec)?;
        Ok(Planned { effective, plan, snapshot, assumed })
    }

    /// The plan of a composed spec.
    pub(crate) fn plan_spec(
        &self,
        service: &LLMInferenceService,
        spec: &LLMInferenceServiceSpec,
    ) -> Result<(Plan, Snapshot, Vec<String>), PlanError> {
        let mut snapshot = self.snapshot.clone();
        // Members of a group share their traffic; nobody else looks at other services.
        if spec.router.as_ref().and_then(|router| router.route.as_ref()?.group.as_ref()).is_some() {
            let all = self.subjects.iter().map(|subject| subject.service.as_ref());
            let near = all.filter(|other| other.metadata.namespace == service.metadata.namespace);
            snapshot.peers.extend(near);
        }
        let assumed =
            if self.assuming { assume::what_is_missing(service, spec, &mut snapshot) } else { Vec::new() };
        let plan = longboat_plan::children(service, spec, &snapshot)?;
        Ok((plan, snapshot, assumed))
    }

    fn add(&mut self, document: &Document, namespace: &str) -> Result<(), SceneError> {
        if is_ours(document, "LLMInferenceService") {
            let service = read_service(document, namespace)?;
            self.remember(document, namespace);
            self.put(service);
            return Ok(());
        }
        if is_ours(document, "LLMInferenceServiceConfig") {
            let config: LLMInferenceServiceConfig =
                read(document, namespace, Member::of(document.clone()).object)?;
            self.remember(document, namespace);
            self.configs.insert(Layer::new(&config)?);
            return Ok(());
        }
        self.add_other(document, namespace)
    }

    fn remember(&mut self, document: &Document, namespace: &str) {
        let namespace = Some(document.namespace()).filter(|own| !own.is_empty()).unwrap_or(namespace);
        let key = (document.kind().to_owned(), namespace.to_owned(), document.name().to_owned());
        self.documents.insert(key, document.clone());
    }

    /// Adds a service. One of its name that is there already keeps what the server decided about it.
    fn put(&mut self, mut service: LLMInferenceService) {
        let same = |subject: &&mut Subject| {
            subject.service.metadata.name == service.metadata.name
                && subject.service.metadata.namespace == service.metadata.namespace
        };
        if let Some(known) = self.subjects.iter_mut().find(same) {
            service.metadata.uid.clone_from(&known.service.metadata.uid);
            service.status.clone_from(&known.service.status);
            *known = Subject { service: Arc::new(completed(service)), given: true };
        } else {
            self.subjects.push(Subject { service: Arc::new(completed(service)), given: true });
        }
    }

    fn add_other(&mut self, document: &Document, namespace: &str) -> Result<(), SceneError> {
        let snapshot = &mut self.snapshot;
        let group = document.api_version().split_once('/').map_or("", |(group, _)| group);
        macro_rules! into {
            ($field:ident) => {
                snapshot.$field.insert(Arc::new(read(document, namespace, document.object.clone())?))
            };
        }
        match (group, document.kind()) {
            ("", "ConfigMap") => into!(config_maps),
            ("", "Secret") => into!(secrets),
            ("", "ServiceAccount") => into!(service_accounts),
            ("", "Service") => into!(services),
            ("gateway.networking.k8s.io", "Gateway") => into!(gateways),
            ("gateway.networking.k8s.io", "HTTPRoute") => into!(http_routes),
            ("gateway.networking.k8s.io", "GatewayClass") => {
                let class: longboat_api::foreign::gatewayclass::GatewayClass =
                    read(document, "", document.object.clone())?;
                snapshot.gateway_classes.insert(Arc::new(class));
            }
            ("inference.networking.k8s.io", "InferencePool") => into!(inference_pools),
            ("inference.networking.x-k8s.io", "InferencePool") => into!(inference_pools_x),
            // The controller looks at nothing else.
            _ => {}
        }
        Ok(())
    }
}

/// The service as the API server would store it: in the storage version, with defaults.
fn read_service(document: &Document, namespace: &str) -> Result<LLMInferenceService, SceneError> {
    let mut object = Member::of(document.clone()).object;
    defaulting::apply(&mut object).map_err(|error| broken(document, namespace, error.to_string()))?;
    let mut service: LLMInferenceService = read(document, namespace, object)?;
    service.status = None;
    Ok(service)
}

/// A service as a pass of the controller starts with it.
fn completed(mut service: LLMInferenceService) -> LLMInferenceService {
    service.metadata.uid.get_or_insert_with(|| NO_UID.to_owned());
    defaulting::apply_typed(&mut service);
    service
}

fn is_ours(document: &Document, kind: &str) -> bool {
    document.kind() == kind && is_of_our_group(document)
}

fn is_of_our_group(document: &Document) -> bool {
    document.api_version().split('/').next() == Some(GROUP)
}

/// The typed object, in the namespace that it names, or else this one.
fn read<K: DeserializeOwned + Metadata<Ty = ObjectMeta>>(
    document: &Document,
    namespace: &str,
    object: Value,
) -> Result<K, SceneError> {
    let mut object: K =
        serde_json::from_value(object).map_err(|error| match go::misfit(&document.object) {
            // Only our own types know where a value of the wrong type is.
            Some(go::Misfit { field, found, expected, .. }) if is_of_our_group(document) => {
                let message = format!("{field}: expected {expected}, found a {found}");
                broken_at(document, &field, namespace, message)
            }
            _ => broken(document, namespace, error.to_string()),
        })?;
    if document.namespace().is_empty() {
        object.metadata_mut().namespace = Some(namespace.to_owned());
    }
    Ok(object)
}

fn broken(document: &Document, namespace: &str, message: String) -> SceneError {
    broken_at(document, "", namespace, message)
}

fn broken_at(document: &Document, path: &str, namespace: &str, message: String) -> SceneError {
    let own = document.namespace();
    SceneError::Object {
        place: document.place(path),
        kind: document.kind().to_owned(),
        namespace: if own.is_empty() { namespace } else { own }.to_owned(),
        name: document.name().to_owned(),
        message,
    }
}
