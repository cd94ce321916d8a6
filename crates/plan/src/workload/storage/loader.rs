//! The container that loads adapters while the engine runs.

use k8s_openapi::{
    api::core::v1::{
        ConfigMapVolumeSource, Container, ContainerPort, EmptyDirVolumeSource, HTTPGetAction, PodSpec, Probe,
        Volume, VolumeMount,
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use longboat_api::{engine::EngineKey, names::ADAPTER_LOADER};
use longboat_download::adapters::{ENGINE_KEY_VARIABLE, LIST_FILE, LOADER_PORT, READY_PATH};

use super::{
    attachment::{Attachment, StorageError},
    ca_bundle, credentials,
    initializer::{ENTRY_POINT, HF_DEFAULTS, resources},
};
use crate::{
    context::Context,
    env, names,
    workload::{
        pod_spec::{MAIN, add_mount, add_volume, container_mut},
        runtime_adapters::Loader,
        security,
    },
};

/// The volume with the files of adapters, and where loader and engine see it. It is beside `/mnt/lora`, below which claims are mounted.
const VOLUME: &str = "adapters";
const FOLDER: &str = "/mnt/adapters";
/// The volume with the list.
const LIST_VOLUME: &str = "adapter-list";
const LIST_FOLDER: &str = "/mnt/adapter-list";
/// The port of an engine whose container names none.
const DEFAULT_PORT: i32 = 8000;

/// Adds the loader to a pod, and lets its engine load adapters. Nothing here depends on the adapters, so a change of them changes no
/// pod template.
///
/// # Errors
/// If the pod has no engine, or if credentials do not exist.
pub(crate) fn attach(
    context: &Context,
    pod: &mut PodSpec,
    loader: &Loader,
    attachment: &Attachment,
) -> Result<(), StorageError> {
    let main = container_mut(pod, MAIN).ok_or(StorageError::NoMainContainer)?;
    env::add(main, env::literal(loader.variable, "True"));
    let key = EngineKey::of(main).and_then(|key| key.variable(ENGINE_KEY_VARIABLE));
    let mount = |name: &str, path: &str, read_only: bool| VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    };
    add_mount(main, mount(VOLUME, FOLDER, true));
    let ports = main.ports.iter().flatten();
    let port = ports.map(|port| port.container_port).next().unwrap_or(DEFAULT_PORT);
    let empty = EmptyDirVolumeSource::default();
    add_volume(pod, Volume { name: VOLUME.into(), empty_dir: Some(empty), ..Volume::default() });
    let list =
        ConfigMapVolumeSource { name: names::adapters(context.name), ..ConfigMapVolumeSource::default() };
    add_volume(pod, Volume { name: LIST_VOLUME.into(), config_map: Some(list), ..Volume::default() });

    let mut args = vec![
        format!("--adapter-list={LIST_FOLDER}/{LIST_FILE}"),
        format!("--adapter-folder={FOLDER}"),
        "--pod-ip=$(POD_IP)".to_owned(),
        format!("--engine-port={port}"),
    ];
    if context.tls() {
        args.push("--engine-tls".to_owned());
    }
    let storage = &attachment.platform.storage;
    let ready = HTTPGetAction {
        path: Some(READY_PATH.into()),
        port: IntOrString::Int(LOADER_PORT.into()),
        scheme: Some("HTTP".into()),
        ..HTTPGetAction::default()
    };
    // A running workload keeps its image: an upgrade must not restart pods just to replace it.
    let live = attachment.live.into_iter().flat_map(|live| live.init_containers.iter().flatten());
    let image = live.filter(|live| live.name == ADAPTER_LOADER).find_map(|live| live.image.clone());
    let mut container = Container {
        name: ADAPTER_LOADER.into(),
        image: image.or_else(|| Some(loader.image.to_owned())),
        command: Some(vec![ENTRY_POINT.to_owned()]),
        args: Some(args),
        env: Some([env::field("POD_IP", "status.podIP")].into_iter().chain(key).collect()),
        ports: Some(vec![ContainerPort {
            container_port: LOADER_PORT.into(),
            protocol: Some("TCP".into()),
            ..ContainerPort::default()
        }]),
        resources: Some(resources(storage, &storage.memory_limit)),
        // A sidecar: it starts before the engine, and ends after it.
        restart_policy: Some("Always".into()),
        // A new pod gets traffic when its engine has the adapters, or it is known why not.
        readiness_probe: Some(Probe {
            http_get: Some(ready),
            period_seconds: Some(1),
            timeout_seconds: Some(2),
            failure_threshold: Some(2),
            ..Probe::default()
        }),
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        volume_mounts: Some(vec![mount(VOLUME, FOLDER, false), mount(LIST_VOLUME, LIST_FOLDER, true)]),
        ..Container::default()
    };
    if let Some(account) = attachment.service_account {
        credentials::add(pod, &mut container, account, attachment)?;
    }
    for (name, value) in HF_DEFAULTS {
        env::add(&mut container, env::literal(name, value));
    }
    ca_bundle::add(pod, &mut container, attachment);
    security::restrict_rights(&mut container, pod, true, attachment.live);
    pod.init_containers.get_or_insert_default().push(container);
    Ok(())
}
