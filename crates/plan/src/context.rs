//! The input of planning one service.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use longboat_api::{
    annotations,
    engine::Engine,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec, SchedulerSpec},
};
use longboat_key::{Name, Namespace, Uid};

use crate::{child::Child, labels::Map, owner, problem::PlanError, snapshot::Snapshot};

/// The service, its composed spec and the snapshot. Every module below gets this.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) service: &'a LLMInferenceService,
    pub(crate) name: Name<&'a str>,
    pub(crate) namespace: Namespace<&'a str>,
    pub(crate) uid: Uid<&'a str>,
    /// The composed spec. If the service is stopped and its spec cannot be composed, the spec of the service itself.
    pub(crate) spec: &'a LLMInferenceServiceSpec,
    pub(crate) snapshot: &'a Snapshot,
}

// === impl Context ===

impl<'a> Context<'a> {
    /// Metadata of a namespaced child whose controller is the service.
    pub(crate) fn child_metadata(&self, name: String, labels: Map) -> ObjectMeta {
        ObjectMeta {
            name: Some(name),
            namespace: Some(self.namespace.into()),
            labels: Some(labels),
            owner_references: Some(vec![OwnerReference {
                api_version: longboat_api::v1alpha2::API_VERSION.into(),
                kind: "LLMInferenceService".into(),
                name: self.name.into(),
                uid: self.uid.into(),
                controller: Some(true),
                // With foreground deletion, the service stays until this child is gone.
                block_owner_deletion: Some(true),
            }]),
            ..ObjectMeta::default()
        }
    }

    /// An annotation of the service.
    pub(crate) fn annotation(&self, key: &str) -> Option<&'a str> {
        self.service.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// The live object of this name, if it is the service's. One of a deleted service with the same name says nothing about this
    /// service.
    pub(crate) fn own<K: Child>(&self, name: &str) -> Option<&'a K> {
        let live = K::observed(self.snapshot).get(self.namespace, Name(name));
        live.filter(|live| owner::controls(self.uid, live.metadata()))
    }

    pub(crate) fn new(
        service: &'a LLMInferenceService,
        spec: &'a LLMInferenceServiceSpec,
        snapshot: &'a Snapshot,
    ) -> Result<Self, PlanError> {
        let ObjectMeta { name, namespace, uid, .. } = &service.metadata;
        Ok(Self {
            service,
            name: Name(name.as_deref().ok_or(PlanError::NotStored("name"))?),
            namespace: Namespace(namespace.as_deref().ok_or(PlanError::NotStored("namespace"))?),
            uid: Uid(uid.as_deref().ok_or(PlanError::NotStored("uid"))?),
            spec,
            snapshot,
        })
    }

    pub(crate) fn stopped(&self) -> bool {
        annotations::is_stopped(self.service.metadata.annotations.as_ref())
    }

    /// Whether pods serve TLS. If the engine of a runtime cannot, nothing of the service does (compatibility.yaml#runtime-tls).
    pub(crate) fn tls(&self) -> bool {
        self.snapshot.platform.ingress.enable_tls
            && (self.spec.runtime().is_none() || Engine::of_spec(self.spec).tls)
    }

    /// The scheme of the URLs of pods.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls() { "https" } else { "http" }
    }

    /// The name clients ask for.
    pub(crate) fn model_name(&self) -> &'a str {
        self.spec.model.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(self.name.as_str())
    }

    /// The name under which gateways know a model of this service. It contains the namespace, so it is unique in the cluster.
    pub(crate) fn published_name(&self, model: &str) -> String {
        format!("publishers/{}/models/{model}", self.namespace)
    }

    /// The scheduler, if this controller runs it: the scheduler has a template and no external pool.
    pub(crate) fn managed_scheduler(&self) -> Option<&'a SchedulerSpec> {
        self.spec.scheduler().filter(|scheduler| {
            !self.stopped() && scheduler.template.is_some() && scheduler.external_pool().is_none()
        })
    }
}
