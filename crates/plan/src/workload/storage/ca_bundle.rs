//! CA certificates of private endpoints, mounted in the download container.

use k8s_openapi::{
    api::core::v1::{ConfigMap, ConfigMapVolumeSource, Container, PodSpec, Volume, VolumeMount},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use longboat_key::Name;

use super::attachment::Attachment;
use crate::{
    context::Context,
    env,
    workload::pod_spec::{add_mount, add_volume},
};

/// The name of the copy of the platform's bundle in each namespace that uses it.
const COPY: &str = "global-ca-bundle";
const KEY: &str = "cabundle.crt";
const VOLUME: &str = "cabundle-cert";
const DEFAULT_PATH: &str = "/etc/ssl/custom-certs";

/// Mounts the bundle that the credentials name, or the platform's.
pub(super) fn add(pod: &mut PodSpec, container: &mut Container, attachment: &Attachment) {
    let env = |name: &str| {
        container
            .env
            .iter()
            .flatten()
            .find(|variable| variable.name == name)
            .and_then(|variable| variable.value.clone())
    };
    let storage = &attachment.platform.storage;
    let named = env("AWS_CA_BUNDLE_CONFIGMAP").filter(|name| !name.is_empty());
    if named.is_none() && storage.ca_bundle_config_map.is_empty() {
        return;
    }
    let config_map = named.unwrap_or_else(|| {
        if attachment.namespace == attachment.system_namespace {
            storage.ca_bundle_config_map.clone()
        } else {
            COPY.to_owned()
        }
    });
    // The variable names a file, and the volume is mounted at its folder.
    let path = env("AWS_CA_BUNDLE")
        .and_then(|file| file.rsplit_once('/').map(|(directory, _)| directory.to_owned()))
        .or_else(|| Some(storage.ca_bundle_mount_path.clone()).filter(|path| !path.is_empty()))
        .unwrap_or_else(|| DEFAULT_PATH.to_owned());
    env::add(container, env::literal("CA_BUNDLE_CONFIGMAP_NAME", &config_map));
    env::add(container, env::literal("CA_BUNDLE_VOLUME_MOUNT_POINT", &path));
    let mount = VolumeMount {
        name: VOLUME.into(),
        mount_path: path,
        read_only: Some(true),
        ..VolumeMount::default()
    };
    add_mount(container, mount);
    let source = ConfigMapVolumeSource { name: config_map, ..ConfigMapVolumeSource::default() };
    add_volume(pod, Volume { name: VOLUME.into(), config_map: Some(source), ..Volume::default() });
}

/// Returns the copy of the platform's bundle for the service's namespace, or `None` if the platform has no bundle.
///
/// # Errors
/// If the platform names a bundle that does not exist or has no certificates.
pub(crate) fn copy(context: &Context) -> Result<Option<ConfigMap>, String> {
    let snapshot = context.snapshot;
    let name = &snapshot.platform.storage.ca_bundle_config_map;
    if name.is_empty() || context.namespace == snapshot.system_namespace.as_deref() {
        return Ok(None);
    }
    let source = snapshot.config_maps.get(snapshot.system_namespace.as_deref(), Name(name));
    let bundle = source.and_then(|source| source.data.as_ref()).and_then(|data| data.get(KEY));
    let Some(bundle) = bundle else {
        return Err(format!(
            "the CA bundle of the platform, ConfigMap {}/{name} with the key \"{KEY}\", does not exist",
            snapshot.system_namespace
        ));
    };
    Ok(Some(ConfigMap {
        metadata: ObjectMeta {
            name: Some(COPY.into()),
            namespace: Some(context.namespace.into()),
            ..ObjectMeta::default()
        },
        data: Some([(KEY.to_owned(), bundle.clone())].into()),
        ..ConfigMap::default()
    }))
}
