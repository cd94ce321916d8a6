//! Models that are container images. They are attached as a second container to whose files a link points, or as an image
//! volume.

use k8s_openapi::{
    api::core::v1::{
        Container, EmptyDirVolumeSource, ImageVolumeSource, PodSpec, ResourceRequirements, SecurityContext,
        Volume, VolumeMount,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use longboat_compose::platform::OciMode;

use super::attachment::{Attachment, MODEL_PATH, StorageError};
use crate::{
    env,
    workload::{
        pod_spec::{add_mount, add_volume, container, container_mut},
        security,
    },
};

const MODELCAR: &str = "modelcar";
/// A volume that `main` shares with the model's container, which creates a link in it.
const SHARED: &str = "kserve-provision-location";
pub(super) const IMAGE_VOLUME: &str = "mnt-models";

/// Attaches an image in the mode that the platform chose.
pub(super) fn attach(pod: &mut PodSpec, image: &str, attachment: &Attachment) -> Result<(), StorageError> {
    match attachment.platform.storage.oci_mode {
        Some(OciMode::Native) => attach_native(pod, image, attachment),
        Some(OciMode::Modelcar) => attach_modelcar(pod, image, attachment),
        None => Err(StorageError::OciDisabled),
    }
}

/// Attaches an image volume, which the kubelet pulls and mounts.
pub(super) fn attach_native(
    pod: &mut PodSpec,
    image: &str,
    attachment: &Attachment,
) -> Result<(), StorageError> {
    let Some(main) = container_mut(pod, attachment.container) else {
        return Err(StorageError::NoMainContainer);
    };
    let mounts = main.volume_mounts.get_or_insert_default();
    match mounts.iter().find(|mount| mount.mount_path == attachment.path) {
        Some(mount) if mount.name == IMAGE_VOLUME => return Ok(()),
        Some(mount) => {
            return Err(StorageError::PathTaken { volume: mount.name.clone(), path: attachment.path });
        }
        None => mounts.push(VolumeMount {
            name: IMAGE_VOLUME.into(),
            mount_path: attachment.path.into(),
            sub_path: Some("models".into()),
            read_only: Some(true),
            ..VolumeMount::default()
        }),
    }
    let source =
        ImageVolumeSource { reference: Some(image.into()), pull_policy: Some("IfNotPresent".into()) };
    add_volume(pod, Volume { name: IMAGE_VOLUME.into(), image: Some(source), ..Volume::default() });
    Ok(())
}

/// Adds a container of the model's image beside `main`. With a shared process namespace, `main` can read the other
/// container's root.
fn attach_modelcar(pod: &mut PodSpec, image: &str, attachment: &Attachment) -> Result<(), StorageError> {
    if container(pod, MODELCAR).is_some() {
        return Ok(());
    }
    let storage = &attachment.platform.storage;
    let Some(main) = container_mut(pod, attachment.container) else {
        return Err(StorageError::NoMainContainer);
    };
    let shared = attachment.path.rsplit_once('/').map_or("/", |(parent, _)| parent);
    let mount = || VolumeMount { name: SHARED.into(), mount_path: shared.into(), ..VolumeMount::default() };
    env::set(main, env::literal("MODEL_INIT_MODE", "async"));
    add_mount(main, mount());
    if let Some(uid) = storage.modelcar_uid {
        main.security_context.get_or_insert_default().run_as_user = Some(uid);
    }

    let quantities = || {
        [("cpu", &storage.modelcar_cpu, "10m"), ("memory", &storage.modelcar_memory, "15Mi")]
            .map(|(name, amount, default)| {
                (name.to_owned(), Quantity(amount.as_deref().unwrap_or(default).to_owned()))
            })
            .into()
    };
    let container = |name: &str, script: String| Container {
        name: name.into(),
        image: Some(image.into()),
        args: Some(vec!["sh".into(), "-c".into(), script]),
        resources: Some(ResourceRequirements {
            limits: Some(quantities()),
            requests: Some(quantities()),
            ..ResourceRequirements::default()
        }),
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        ..Container::default()
    };
    // `$$$$` survives two rounds of `$$` expansion as the shell's own process id.
    let path = attachment.path;
    let prepare = if path == MODEL_PATH { String::new() } else { format!("mkdir -p {shared} && ") };
    let script = format!("{prepare}ln -sf /proc/$$$$/root/models {path} && sleep infinity");
    let mut server = container(MODELCAR, script);
    server.volume_mounts = Some(vec![mount()]);
    server.security_context = storage
        .modelcar_uid
        .map(|uid| SecurityContext { run_as_user: Some(uid), ..SecurityContext::default() });
    let mut check = container(
        "modelcar-init",
        format!(
            "echo 'Pre-fetching modelcar {image}: ' && [ -d /models ] && [ \"$$(ls -A /models)\" ] && echo 'OK ... Prefetched \
             and valid (/models exists)' || (echo 'NOK ... Prefetched but modelcar is invalid (/models does not exist or is \
             empty)' && exit 1)"
        ),
    );
    check.security_context.clone_from(&server.security_context);
    // Images of models often have no user but root. Only the platform knows whether another user works.
    let non_root = storage.modelcar_uid.is_some_and(|uid| uid != 0);
    for added in [&mut server, &mut check] {
        security::restrict_rights(added, pod, non_root, attachment.live);
    }
    pod.containers.push(server);
    pod.init_containers.get_or_insert_default().push(check);
    pod.share_process_namespace = Some(true);
    let source = EmptyDirVolumeSource::default();
    add_volume(pod, Volume { name: SHARED.into(), empty_dir: Some(source), ..Volume::default() });
    Ok(())
}
