//! What decides how a model is attached to a pod, and why it cannot be.

use k8s_openapi::api::core::v1::{Container, PodSpec, Secret, ServiceAccount};
use longboat_api::{labels::LOCAL_MODEL, names::STORAGE_INITIALIZER, v1alpha2::LLMInferenceService};
use longboat_compose::{Adapter, platform::Platform};
use longboat_download::address::Address;
use longboat_key::Namespace;
use thiserror::Error;

use crate::{context::Context, observed::ObservedObjects, workload::pod_spec::MAIN};

/// The init container that downloads the model.
pub(crate) const INITIALIZER: &str = STORAGE_INITIALIZER;
/// Where a model server finds its model.
pub(super) const MODEL_PATH: &str = "/mnt/models";

/// Why a model cannot be attached to a pod.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StorageError {
    /// The URI has no scheme.
    #[error("invalid model URI: {0}")]
    InvalidUri(String),
    /// A scheme that is not supported.
    #[error("unsupported schema in model URI: {0}")]
    UnsupportedScheme(String),
    /// OCI images as models are switched off in `inferenceservice-config`.
    #[error(
        "OCI modelcars is not enabled: set `enableModelcar` or `ociModelMode` in storageInitializer of inferenceservice-config"
    )]
    OciDisabled,
    /// The pod has no container for the model.
    #[error("no container found with name {MAIN}")]
    NoMainContainer,
    /// Another volume is mounted at the model's path.
    #[error("volume \"{volume}\" is already mounted at {path}, where the model image goes")]
    PathTaken {
        /// The mount that is in the way.
        volume: String,
        /// The path of the model.
        path: &'static str,
    },
    /// A secret of the service account, or of the storage annotation, does not exist.
    #[error("secrets \"{0}\" not found")]
    SecretNotFound(String),
    /// The service has the label of the local model cache, but not the annotation with the location of the cache.
    #[error("annotation {0} is missing on a service with the label {LOCAL_MODEL}")]
    LocalModelAnnotation(&'static str),
    /// The user's `storage-initializer` container cannot be merged onto the managed one.
    #[error("cannot merge the storage-initializer container of the template: {0}")]
    Override(String),
}

/// The input that decides how a model is attached.
pub(crate) struct Attachment<'a> {
    pub(crate) service: &'a LLMInferenceService,
    pub(crate) namespace: Namespace<&'a str>,
    /// The model's address after composition.
    pub(crate) address: Address,
    /// `spec.storageInitializer.enabled`.
    pub(crate) enabled: bool,
    /// `spec.model.confidential`, if it is enabled: the resource for attestation, which may be empty.
    pub(crate) confidential: Option<&'a str>,
    pub(crate) platform: &'a Platform,
    /// The system namespace. There the CA bundle has its original name.
    pub(crate) system_namespace: Namespace<&'a str>,
    /// The account of the pods, or `default`; `None` if that does not exist.
    pub(crate) service_account: Option<&'a ServiceAccount>,
    pub(crate) secrets: &'a ObservedObjects<Secret>,
    /// The container that gets the model, and the path in it.
    pub(crate) container: &'static str,
    pub(crate) path: &'static str,
    /// Adapters to attach beside the model.
    pub(crate) adapters: &'a [Adapter],
    /// The pod spec that runs now. An upgrade must not restart pods just to replace the initializer's image.
    pub(crate) live: Option<&'a PodSpec>,
}

// === impl Attachment ===

impl<'a> Attachment<'a> {
    /// The service's model, for the container `main` of a model server.
    pub(crate) fn of_model(
        context: &Context<'a>,
        service_account: Option<&'a ServiceAccount>,
        live: Option<&'a PodSpec>,
    ) -> Self {
        let model = &context.spec.model;
        let confidential = model.confidential.as_ref().filter(|confidential| confidential.enabled);
        Self {
            service: context.service,
            namespace: context.namespace,
            address: model.uri.address(),
            enabled: context.spec.storage_initializer_enabled(),
            confidential: confidential
                .map(|confidential| confidential.resource_id.as_deref().unwrap_or_default()),
            platform: &context.snapshot.platform,
            system_namespace: context.snapshot.system_namespace.as_deref(),
            service_account,
            secrets: &context.snapshot.secrets,
            container: MAIN,
            path: MODEL_PATH,
            adapters: &[],
            live,
        }
    }
}

/// The pod's initializer, if it has one.
pub(crate) fn initializer(pod: &PodSpec) -> Option<&Container> {
    pod.init_containers.iter().flatten().find(|container| container.name == INITIALIZER)
}
