//! Containers, volumes and mounts of a pod.

use k8s_openapi::api::core::v1::{Container, PodSpec, Volume, VolumeMount};

/// The container that serves the model.
pub(crate) use longboat_api::names::MAIN_CONTAINER as MAIN;

/// The container with this name.
pub(crate) fn container<'a>(pod: &'a PodSpec, name: &str) -> Option<&'a Container> {
    pod.containers.iter().find(|container| container.name == name)
}

/// The container with this name.
pub(crate) fn container_mut<'a>(pod: &'a mut PodSpec, name: &str) -> Option<&'a mut Container> {
    pod.containers.iter_mut().find(|container| container.name == name)
}

/// The arguments of the main container.
pub(crate) fn main_args(pod: &PodSpec) -> Option<&[String]> {
    container(pod, MAIN)?.args.as_deref()
}

/// Adds a volume, unless there is one of that name.
pub(crate) fn add_volume(pod: &mut PodSpec, volume: Volume) {
    let volumes = pod.volumes.get_or_insert_default();
    if !volumes.iter().any(|present| present.name == volume.name) {
        volumes.push(volume);
    }
}

/// Adds a mount, unless the container has it.
pub(crate) fn add_mount(container: &mut Container, mount: VolumeMount) {
    let mounts = container.volume_mounts.get_or_insert_default();
    if !mounts.iter().any(|present| present.mount_path == mount.mount_path && present.name == mount.name) {
        mounts.push(mount);
    }
}
