//! Models that an init container downloads.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::core::v1::{
        Container, ContainerPort, EmptyDirVolumeSource, PodSpec, ResourceRequirements, Volume, VolumeMount,
    },
    apimachinery::pkg::api::resource::Quantity,
};

use longboat_api::reasons::event::STORAGE_INITIALIZER_OVERRIDE;
use longboat_compose::{Adapter, AdapterSource, Warning, platform::StorageInitializer};
use longboat_download::{
    PORT_VARIABLE,
    address::{Address, Scheme},
};

use super::{
    attachment::{Attachment, INITIALIZER, MODEL_PATH, StorageError, initializer},
    ca_bundle, credentials,
};
use crate::{
    env,
    workload::{
        pod_spec::{add_mount, add_volume, container_mut},
        security,
    },
};

/// The entry point of the storage initializer, in our image and in the reference's. Our image has other roles too.
pub(super) const ENTRY_POINT: &str = "/storage-initializer/scripts/initializer-entrypoint";

pub(super) const VOLUME: &str = "kserve-provision-location";

/// Settings that make downloads from the Hugging Face hub fast.
pub(super) const HF_DEFAULTS: [(&str, &str); 3] = [
    ("HF_HUB_ENABLE_HF_TRANSFER", "1"),
    ("HF_XET_HIGH_PERFORMANCE", "1"),
    ("HF_XET_NUM_CONCURRENT_RANGE_GETS", "8"),
];

/// What the download container fetches, and the target folders.
pub(super) struct Downloads {
    /// Pairs of address and target: the model first, then adapters by name.
    pairs: Vec<(Address, String)>,
    /// Whether the model is among them.
    model: bool,
}

// === impl Downloads ===

impl Downloads {
    pub(super) fn of_adapters(adapters: &[Adapter]) -> Self {
        let downloaded = adapters.iter().filter(|adapter| adapter.source == AdapterSource::Download);
        let pairs = downloaded.map(|adapter| (adapter.address.clone(), adapter.mount_path.clone())).collect();
        Self { pairs, model: false }
    }

    pub(super) fn add_model(&mut self, address: Address) {
        self.pairs.insert(0, (address, MODEL_PATH.to_owned()));
        self.model = true;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    fn only_model(&self) -> bool {
        self.model && self.pairs.len() == 1
    }

    fn any_from_hub(&self) -> bool {
        self.pairs.iter().any(|(address, _)| address.scheme() == Scheme::HuggingFace)
    }

    fn args(&self) -> Vec<String> {
        self.pairs.iter().flat_map(|(address, path)| [address.as_str().to_owned(), path.clone()]).collect()
    }

    /// The deepest folder that contains all targets. A single target is returned itself.
    fn folder(&self) -> String {
        let mut paths = self.pairs.iter().map(|(_, path)| path.split('/').collect::<Vec<_>>());
        let mut common = paths.next().unwrap_or_default();
        for path in paths {
            let same = common.iter().zip(&path).take_while(|(a, b)| a == b).count();
            common.truncate(same);
        }
        common.join("/")
    }
}

/// Appends the download container, merged with the user's container of that name if there is one, and mounts what it fetches.
pub(super) fn attach(
    pod: &mut PodSpec,
    downloads: &Downloads,
    attachment: &Attachment,
) -> Result<Vec<Warning>, StorageError> {
    let mut events = Vec::new();
    // If a model image has mounted the volume above the adapters' folder, the adapters are downloaded to that mount.
    let mounted = container_mut(pod, attachment.container)
        .and_then(|main| main.volume_mounts.as_ref()?.iter().find(|mount| mount.name == VOLUME))
        .map(|mount| mount.mount_path.clone());
    let folder = mounted.clone().unwrap_or_else(|| downloads.folder());
    let mut container = managed(downloads, &folder, attachment);
    if let Some(user) = take_user_container(pod) {
        // Another image has another entry point.
        if user.image.as_ref().is_some_and(|image| Some(image) != container.image.as_ref()) {
            container.command = None;
        }
        if user.args.is_some() || user.command.is_some() {
            events.push(Warning {
                reason: STORAGE_INITIALIZER_OVERRIDE,
                message: format!(
                    "args and command of the {INITIALIZER} init container in the template are ignored: they are managed"
                ),
            });
        }
        container = merge_user_container(&container, &user)?;
    }
    let empty = EmptyDirVolumeSource::default();
    add_volume(pod, Volume { name: VOLUME.into(), empty_dir: Some(empty), ..Volume::default() });
    if let Some(main) = container_mut(pod, attachment.container).filter(|_| mounted.is_none()) {
        let mount_path = if downloads.only_model() { attachment.path.to_owned() } else { folder };
        let mount =
            VolumeMount { name: VOLUME.into(), mount_path, read_only: Some(true), ..VolumeMount::default() };
        add_mount(main, mount);
    }
    for (address, _) in downloads.pairs.iter().filter(|(address, _)| address.scheme() == Scheme::File) {
        mount_in_initializer(pod, &mut container, address.rest(), attachment.container);
    }
    if let Some(account) = attachment.service_account {
        credentials::add(pod, &mut container, account, attachment)?;
    }
    // A running workload never gets these variables later. So they must not depend on the account, which the cache may not
    // have yet if its namespace is new.
    if downloads.any_from_hub() && wants_hf_defaults(attachment.live) {
        for (name, value) in HF_DEFAULTS {
            env::add(&mut container, env::literal(name, value));
        }
    }
    if let Some(port) = progress_port(attachment) {
        env::add(&mut container, env::literal(PORT_VARIABLE, &port.to_string()));
        let port = ContainerPort {
            container_port: port.into(),
            protocol: Some("TCP".into()),
            ..ContainerPort::default()
        };
        container.ports.get_or_insert_default().push(port);
    }
    // As in the reference, a model that comes alone from the hub gets no bundle.
    if !(downloads.only_model() && downloads.any_from_hub()) {
        ca_bundle::add(pod, &mut container, attachment);
    }
    security::restrict_rights(&mut container, pod, true, attachment.live);
    pod.init_containers.get_or_insert_default().push(container);
    Ok(events)
}

fn managed(downloads: &Downloads, folder: &str, attachment: &Attachment) -> Container {
    let storage = &attachment.platform.storage;
    // A running workload keeps its image, and therefore the image's command and a sufficient memory limit.
    let (image, command, memory_limit) = match attachment.live.and_then(initializer) {
        Some(live) if live.image.is_some() => {
            let limits = live.resources.as_ref().and_then(|resources| resources.limits.as_ref());
            let limit = limits.and_then(|limits| Some(limits.get("memory")?.0.as_str()));
            let keeps_limit = storage.ours && live.command.is_none();
            let limit = limit.filter(|_| keeps_limit).unwrap_or(&storage.memory_limit);
            (live.image.clone(), live.command.clone(), limit)
        }
        _ => {
            let command = storage.ours.then(|| vec![ENTRY_POINT.to_owned()]);
            (Some(storage.image.clone()), command, storage.memory_limit.as_str())
        }
    };
    let mut env = Vec::new();
    if let Some(resource) = attachment.confidential {
        env.push(env::literal("CONFIDENTIAL_ENABLED", "true"));
        if !resource.is_empty() {
            env.push(env::literal("CONFIDENTIAL_RESOURCE_ID", resource));
        }
    }
    Container {
        name: INITIALIZER.into(),
        image,
        command,
        args: Some(downloads.args()),
        env: Some(env).filter(|env| !env.is_empty()),
        resources: Some(resources(storage, memory_limit)),
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        volume_mounts: Some(vec![VolumeMount {
            name: VOLUME.into(),
            mount_path: folder.to_owned(),
            ..VolumeMount::default()
        }]),
        ..Container::default()
    }
}

/// The resources of a container that downloads.
pub(super) fn resources(storage: &StorageInitializer, memory_limit: &str) -> ResourceRequirements {
    let quantities = |cpu: &str, memory: &str| -> BTreeMap<String, Quantity> {
        [("cpu".to_owned(), Quantity(cpu.to_owned())), ("memory".to_owned(), Quantity(memory.to_owned()))]
            .into()
    };
    ResourceRequirements {
        limits: Some(quantities(&storage.cpu_limit, memory_limit)),
        requests: Some(quantities(&storage.cpu_request, &storage.memory_request)),
        ..ResourceRequirements::default()
    }
}

/// Mounts the volume that the model's container has at `path` in the download container too, so that the download container
/// can copy from it. Without such a mount, the path is in the image, or on the machine in local mode. A volume that is
/// created with the pod is empty unless an init container fills it.
fn mount_in_initializer(pod: &mut PodSpec, container: &mut Container, path: &str, of: &str) {
    let volumes = pod.volumes.iter().flatten();
    let empty_dirs = volumes.filter(|volume| volume.empty_dir.is_some()).map(|volume| volume.name.clone());
    let filled = |name: &String| {
        let mut mounts =
            pod.init_containers.iter().flatten().flat_map(|init| init.volume_mounts.iter().flatten());
        mounts.any(|mount| mount.name == *name)
    };
    let empty: BTreeSet<String> = empty_dirs.filter(|name| !filled(name)).collect();
    let holds = |mount: &&VolumeMount| {
        let at = mount.mount_path.trim_end_matches('/');
        path.strip_prefix(at).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let Some(main) = container_mut(pod, of) else { return };
    let found = main.volume_mounts.iter().flatten().filter(holds);
    let deepest = found.max_by_key(|mount| mount.mount_path.len());
    if let Some(mount) = deepest.filter(|mount| !empty.contains(&mount.name)) {
        add_mount(container, VolumeMount { read_only: Some(true), ..mount.clone() });
    }
}

fn take_user_container(pod: &mut PodSpec) -> Option<Container> {
    let list = pod.init_containers.as_mut()?;
    let at = list.iter().position(|container| container.name == INITIALIZER)?;
    Some(list.remove(at))
}

/// Merges the user's container over the managed one, which keeps its name, arguments and command.
fn merge_user_container(managed: &Container, user: &Container) -> Result<Container, StorageError> {
    let failed = |error: &dyn std::fmt::Display| StorageError::Override(error.to_string());
    let base = serde_json::to_value(managed).map_err(|error| failed(&error))?;
    let mut patch = serde_json::to_value(user).map_err(|error| failed(&error))?;
    if let Some(fields) = patch.as_object_mut() {
        fields.remove("args");
        fields.remove("command");
    }
    let merged = longboat_patch::strategic::merge(base, patch, "io.k8s.api.core.v1.Container")
        .map_err(|error| failed(&error))?;
    let mut merged: Container = serde_json::from_value(merged).map_err(|error| failed(&error))?;
    // Merging by name can leave both `value` and `valueFrom`; the user's form counts.
    for variable in merged
        .env
        .iter_mut()
        .flatten()
        .filter(|variable| variable.value.is_some() && variable.value_from.is_some())
    {
        let from_user = user.env.iter().flatten().find(|candidate| candidate.name == variable.name);
        if from_user.is_some_and(|candidate| candidate.value_from.is_some()) {
            variable.value = None;
        } else {
            variable.value_from = None;
        }
    }
    Ok(merged)
}

/// Whether the container gets the settings for fast downloads. A workload that runs without them keeps running without them.
fn wants_hf_defaults(live: Option<&PodSpec>) -> bool {
    live.and_then(initializer).is_none_or(|container| {
        // A container that downloads from elsewhere never had them.
        let args = container.args.iter().flatten();
        let from_hub = args.map(Address::parse).any(|address| address.scheme() == Scheme::HuggingFace);
        !from_hub || container.env.iter().flatten().any(|variable| variable.name.starts_with("HF_"))
    })
}

/// The port at which our image reports the progress of the download, or `None` if it does not. A running workload keeps its
/// setting.
fn progress_port(attachment: &Attachment) -> Option<u16> {
    let Some(live) = attachment.live.and_then(initializer) else {
        let platform = attachment.platform;
        return platform.download_progress_port.filter(|_| platform.storage.ours);
    };
    let mut env = live.env.iter().flatten();
    env.find(|variable| variable.name == PORT_VARIABLE)?.value.as_ref()?.parse().ok()
}
