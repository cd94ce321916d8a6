//! The facts to examine: plain data, gathered once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        apps::v1::Deployment,
        coordination::v1::Lease,
        core::v1::{Event, PersistentVolumeClaim, Pod},
        networking::v1::NetworkPolicy,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig};
use longboat_compose::PresetNames;
use longboat_key::Key;
use longboat_plan::Snapshot;

/// All facts to examine.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Whether this is a local cluster, in which `longboat up` is the controller, the webhooks and the API server.
    pub local: bool,
    /// How the names of presets are formed.
    pub preset_names: PresetNames,
    /// Definitions of our kinds and of those that services need, by name. They have no schemas.
    pub definitions: BTreeMap<String, CustomResourceDefinition>,
    /// Definitions that the user may not read, so that it is unknown whether they exist.
    pub unseen_definitions: BTreeSet<String>,
    /// Why the platform settings cannot be used, if so.
    pub platform_error: Option<String>,
    /// What the controller sees.
    pub snapshot: Snapshot,
    /// Services, by namespace and name.
    pub services: Vec<Arc<LLMInferenceService>>,
    /// Whether these are all services, not only those that the user named.
    pub all_services: bool,
    /// Configs, by namespace and name.
    pub configs: Vec<Arc<LLMInferenceServiceConfig>>,
    /// Pods of services and of the controller.
    pub pods: Vec<Pod>,
    /// Warning events in the namespaces of services.
    pub events: Vec<Event>,
    /// Persistent volume claims that services may use.
    pub claims: Vec<PersistentVolumeClaim>,
    /// Network policies in the namespaces of services with separate prefill, and in that of a shared picker whose callers are limited.
    pub network_policies: Vec<NetworkPolicy>,
    /// Why engines of the user see volumes at other paths than those of their manifests, by node; only in local mode.
    pub other_paths: BTreeMap<String, String>,
    /// The reports of engines about themselves, by `namespace/pod`.
    pub engines: BTreeMap<String, Engine>,
    /// The controller's Deployment.
    pub controller: Option<Deployment>,
    /// The Lease with which controllers elect a leader.
    pub lease: Option<Lease>,
    /// Rights that the controller needs and lacks: `verb resource.group`.
    pub denied: Vec<String>,
    /// Our mutating webhook configurations.
    pub mutating: Vec<MutatingWebhookConfiguration>,
    /// Our validating webhook configurations.
    pub validating: Vec<ValidatingWebhookConfiguration>,
    /// Why a dry-run creation of a service was refused, if it was.
    pub admission: Option<String>,
    /// Why services could not be read in the older version, if so.
    pub conversion: Option<String>,
    /// The responses of services that report Ready, by `namespace/name`.
    pub answers: BTreeMap<String, Answers>,
    /// The Secrets with API keys that no gateway accepts, and why.
    pub refused_keys: BTreeMap<Key, String>,
    /// Facts that could not be read, one sentence each.
    pub hidden: Vec<String>,
}

// === impl Facts ===

impl Facts {
    /// Creates the facts of a cluster in which only a snapshot is known.
    pub fn new(snapshot: Snapshot, preset_names: PresetNames) -> Self {
        Self {
            local: false,
            preset_names,
            definitions: BTreeMap::new(),
            unseen_definitions: BTreeSet::new(),
            platform_error: None,
            snapshot,
            services: Vec::new(),
            all_services: true,
            configs: Vec::new(),
            pods: Vec::new(),
            events: Vec::new(),
            claims: Vec::new(),
            network_policies: Vec::new(),
            other_paths: BTreeMap::new(),
            engines: BTreeMap::new(),
            controller: None,
            lease: None,
            denied: Vec::new(),
            mutating: Vec::new(),
            validating: Vec::new(),
            admission: None,
            conversion: None,
            answers: BTreeMap::new(),
            refused_keys: BTreeMap::new(),
            hidden: Vec::new(),
        }
    }
}

/// The report of an engine about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Engine {
    /// Its version, if it reports that.
    pub version: Option<String>,
    /// The names of its models; empty if it does not report them.
    pub models: Vec<String>,
}

/// The responses of a service to a request for its models.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// From its URL: the status code, or why there is none.
    pub at_url: Option<Result<u16, String>>,
    /// From the Service of its workload, through the API server.
    pub at_workload: Option<Result<u16, String>>,
}
