//! What is examined: plain data, gathered once.

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
use longboat_plan::Snapshot;

/// Everything that is examined.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Whether this is a local world: `longboat up` is controller, webhooks and rights at once.
    pub local: bool,
    /// How presets are named.
    pub preset_names: PresetNames,
    /// Definitions of our kinds and of those that services need, by name. Only heads: no schemas.
    pub definitions: BTreeMap<String, CustomResourceDefinition>,
    /// Definitions of which nobody can say whether they are there: this user may not read them.
    pub unseen_definitions: BTreeSet<String>,
    /// Why the platform's settings cannot be used, if so.
    pub platform_error: Option<String>,
    /// What the controller sees.
    pub snapshot: Snapshot,
    /// Services, by namespace and name.
    pub services: Vec<Arc<LLMInferenceService>>,
    /// Configs, by namespace and name.
    pub configs: Vec<Arc<LLMInferenceServiceConfig>>,
    /// Pods of services and of the controller.
    pub pods: Vec<Pod>,
    /// Warnings of the namespaces of services.
    pub events: Vec<Event>,
    /// Volumes that services may use.
    pub claims: Vec<PersistentVolumeClaim>,
    /// Policies about who reaches pods, of the namespaces of services whose prefill is apart.
    pub network_policies: Vec<NetworkPolicy>,
    /// What engines say about themselves, by `namespace/pod`.
    pub engines: BTreeMap<String, Engine>,
    /// The controller's Deployment.
    pub controller: Option<Deployment>,
    /// The Lease by which controllers agree who leads.
    pub lease: Option<Lease>,
    /// What the controller may not do, of what it needs: `verb resource.group`.
    pub denied: Vec<String>,
    /// Webhook configurations of ours that change objects.
    pub mutating: Vec<MutatingWebhookConfiguration>,
    /// Webhook configurations of ours that refuse objects.
    pub validating: Vec<ValidatingWebhookConfiguration>,
    /// What came of a service that was to be created as a dry run: why it was refused.
    pub admission: Option<String>,
    /// What came of reading services in the older version: why it failed.
    pub conversion: Option<String>,
    /// What services that say Ready answered, by `namespace/name`.
    pub answers: BTreeMap<String, Answers>,
    /// What could not be read, one sentence each.
    pub hidden: Vec<String>,
}

/// What an engine says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Engine {
    /// Its version, where it says it.
    pub version: Option<String>,
    /// The names of its models; empty where it does not say them.
    pub models: Vec<String>,
}

/// What a service answered to a request for its models.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// At its URL: a status code, or why there is none.
    pub at_url: Option<Result<u16, String>>,
    /// At the Service of its workload, through the API server.
    pub at_workload: Option<Result<u16, String>>,
}
