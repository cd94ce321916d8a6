//! Brings a model's weights into a pod.

mod ca_bundle;
mod credentials;
mod env;
mod initializer;
pub(super) mod loader;
mod oci;
mod pvc;
mod s3;

use k8s_openapi::api::core::v1::{Container, PodSpec, Secret, ServiceAccount, Volume, VolumeMount};
use longboat_api::{
    annotations::{LOCAL_MODEL_PVC_NAME, LOCAL_MODEL_SOURCE_URI},
    labels::LOCAL_MODEL,
    names::STORAGE_INITIALIZER,
    v1alpha2::LLMInferenceService,
};
use longboat_compose::{Adapter, platform::Platform};
use longboat_download::address::{Address, Scheme};
use longboat_key::Namespace;
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::lora;
use crate::{context::Context, event::PlannedEvent, observed::ObservedObjects};

pub(crate) use ca_bundle::copy as ca_bundle_copy;

/// The container that serves the model.
pub(crate) const MAIN: &str = "main";
/// The init container that downloads the model.
pub(crate) const INITIALIZER: &str = STORAGE_INITIALIZER;
const MODEL_PATH: &str = "/mnt/models";

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

/// Mounts the model in its container as the URI's scheme requires, and the adapters beside it.
///
/// # Errors
/// If the URI cannot be attached, or if credentials do not exist.
pub(crate) fn attach(pod: &mut PodSpec, attachment: &Attachment) -> Result<Vec<PlannedEvent>, StorageError> {
    if attachment.address.scheme() == Scheme::Absent {
        return Err(StorageError::InvalidUri(attachment.address.to_string()));
    }
    if !attachment.enabled {
        return Ok(Vec::new());
    }
    let address = local_model(attachment)?.unwrap_or_else(|| attachment.address.clone());
    let mut downloads = initializer::Downloads::of_adapters(attachment.adapters);
    match address.scheme() {
        Scheme::Claim => {
            if downloads.is_empty() {
                remove_user_initializer(pod);
            }
            pvc::attach(pod, &address, attachment);
        }
        Scheme::Oci => {
            if downloads.is_empty() {
                remove_user_initializer(pod);
            }
            oci::attach(pod, address.rest(), attachment)?;
        }
        Scheme::OciNative => oci::attach_native(pod, address.rest(), attachment)?,
        Scheme::HuggingFace | Scheme::S3 | Scheme::Gcs | Scheme::Http | Scheme::Https | Scheme::File => {
            downloads.add_model(address);
        }
        Scheme::Other | Scheme::Absent => return Err(StorageError::UnsupportedScheme(address.to_string())),
    }
    let events =
        if downloads.is_empty() { Vec::new() } else { initializer::attach(pod, &downloads, attachment)? };
    lora::mount_claims(pod, attachment.adapters, attachment.live);
    Ok(events)
}

/// The address of this model in the local model cache, if the service has the label to use the cache.
fn local_model(attachment: &Attachment) -> Result<Option<Address>, StorageError> {
    let metadata = &attachment.service.metadata;
    if !metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(LOCAL_MODEL)) {
        return Ok(None);
    }
    let annotation = |key: &'static str| {
        metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(key))
            .ok_or(StorageError::LocalModelAnnotation(key))
    };
    let (source, claim) = (annotation(LOCAL_MODEL_SOURCE_URI)?, annotation(LOCAL_MODEL_PVC_NAME)?);
    Ok(Some(cached(&attachment.address, source, claim)))
}

/// The address of a model in the claim of the cache that has `source`.
pub(super) fn cached(address: &Address, source: &str, claim: &str) -> Address {
    let below = address.as_str().strip_prefix(source).unwrap_or_default();
    let key = Sha256::digest(source.as_bytes());
    Address::parse(format!("pvc://{claim}/models/{key:.16x}/{}", below.trim_start_matches('/')))
}

fn remove_user_initializer(pod: &mut PodSpec) {
    if let Some(list) = &mut pod.init_containers {
        list.retain(|container| container.name != INITIALIZER);
    }
}

pub(crate) fn container_mut<'a>(pod: &'a mut PodSpec, name: &str) -> Option<&'a mut Container> {
    pod.containers.iter_mut().find(|container| container.name == name)
}

/// The pod's initializer, if it has one.
pub(crate) fn initializer(pod: &PodSpec) -> Option<&Container> {
    pod.init_containers.iter().flatten().find(|container| container.name == INITIALIZER)
}

pub(crate) fn add_volume(pod: &mut PodSpec, volume: Volume) {
    let volumes = pod.volumes.get_or_insert_default();
    if !volumes.iter().any(|present| present.name == volume.name) {
        volumes.push(volume);
    }
}

pub(crate) fn add_mount(container: &mut Container, mount: VolumeMount) {
    let mounts = container.volume_mounts.get_or_insert_default();
    if !mounts.iter().any(|present| present.mount_path == mount.mount_path && present.name == mount.name) {
        mounts.push(mount);
    }
}
