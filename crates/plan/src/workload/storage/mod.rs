//! Brings a model's weights into a pod.

mod adapters;
mod attachment;
mod ca_bundle;
mod credentials;
mod initializer;
pub(super) mod loader;
mod oci;
mod pvc;
mod s3;

use k8s_openapi::api::core::v1::PodSpec;
use longboat_api::{
    annotations::{LOCAL_MODEL_PVC_NAME, LOCAL_MODEL_SOURCE_URI},
    labels::LOCAL_MODEL,
};
use longboat_compose::Warning;
use longboat_download::address::{Address, Scheme};
use sha2::{Digest, Sha256};

pub use attachment::StorageError;
pub(crate) use attachment::{Attachment, INITIALIZER};
pub(crate) use ca_bundle::copy as ca_bundle_copy;
pub use credentials::{has_credentials, secret_command};

/// Mounts the model in its container as the URI's scheme requires, and the adapters beside it.
///
/// # Errors
/// If the URI cannot be attached, or if credentials do not exist.
pub(crate) fn attach(pod: &mut PodSpec, attachment: &Attachment) -> Result<Vec<Warning>, StorageError> {
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
        // As in the reference, a `storage-initializer` of the template stays beside such an image.
        Scheme::OciNative => oci::attach_native(pod, address.rest(), attachment)?,
        Scheme::HuggingFace | Scheme::S3 | Scheme::Gcs | Scheme::Http | Scheme::Https | Scheme::File => {
            downloads.add_model(address);
        }
        Scheme::Other | Scheme::Absent => return Err(StorageError::UnsupportedScheme(address.to_string())),
    }
    let events =
        if downloads.is_empty() { Vec::new() } else { initializer::attach(pod, &downloads, attachment)? };
    adapters::mount_claims(pod, attachment.adapters, attachment.live);
    Ok(events)
}

/// Returns the name of the volume with a model of this scheme, if its container mounts one at the model's path. A mount of a volume with
/// this name stays as the template has it.
pub fn model_volume(scheme: Scheme) -> Option<&'static str> {
    match scheme {
        Scheme::Claim => Some(pvc::VOLUME),
        Scheme::OciNative => Some(oci::IMAGE_VOLUME),
        Scheme::HuggingFace | Scheme::S3 | Scheme::Gcs | Scheme::Http | Scheme::Https | Scheme::File => {
            Some(initializer::VOLUME)
        }
        Scheme::Oci | Scheme::Other | Scheme::Absent => None,
    }
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
