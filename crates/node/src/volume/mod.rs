//! Volumes as folders of the pod's directory.
//!
//! emptyDir and ephemeral volumes are folders that are deleted with the pod. A claim is a folder of the state directory that
//! is deleted with the claim's object. The folder is also used without such an object, because there is only one kind of
//! storage here. A hostPath is the path itself. ConfigMaps, Secrets, downward API and projected volumes are files, which are
//! updated when their sources change. An OCI image as a volume is an empty folder for the simulator, which reads no weights,
//! and an error otherwise.

mod content;
mod error;
mod files;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, FileType};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod, Volume};

use crate::container::env::PodFacts;
use crate::container::expand::expand;
use crate::container::paths::PathMap;
use crate::container::sources::{SourceKey, SourceKind, Sources};
use crate::private;
use error::SetUpProblem;
pub(crate) use error::VolumeError;

/// The folder where Kubernetes puts the API credentials of every container.
pub(crate) const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The data that volumes need besides their sources.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    /// The pod's directory.
    pub(crate) pod_dir: PathBuf,
    /// The folder that holds one folder of claims per namespace.
    pub(crate) claims_dir: PathBuf,
    /// The tokens of the pod's service account by audience, which is empty for the API server.
    pub(crate) tokens: BTreeMap<String, String>,
    /// Whether the engine is the simulator.
    pub(crate) simulator: bool,
}

/// Returns the ConfigMaps and Secrets that the pod's volumes need.
pub(crate) fn wanted(pod: &Pod) -> Vec<SourceKey> {
    let (mut maps, mut secrets) = (Vec::new(), Vec::new());
    for volume in volumes(pod) {
        maps.extend(volume.config_map.iter().map(|source| source.name.clone()));
        secrets.extend(volume.secret.iter().filter_map(|source| source.secret_name.clone()));
        for source in volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
            maps.extend(source.config_map.iter().map(|source| source.name.clone()));
            secrets.extend(source.secret.iter().map(|source| source.name.clone()));
        }
    }
    let secrets = secrets.into_iter().map(|name| (SourceKind::Secret, name));
    maps.into_iter().map(|name| (SourceKind::ConfigMap, name)).chain(secrets).collect()
}

/// Whether a volume of the pod has files that can change while it runs.
pub(crate) fn can_change(pod: &Pod) -> bool {
    volumes(pod).any(|volume| {
        volume.config_map.is_some()
            || volume.secret.is_some()
            || volume.projected.is_some()
            || volume.downward_api.is_some()
    })
}

/// Returns the audiences of the tokens in the pod's volumes. The audience of the API server is empty.
pub(crate) fn token_audiences(pod: &Pod) -> BTreeSet<String> {
    let sources = volumes(pod).filter_map(|volume| volume.projected.as_ref()?.sources.as_ref()).flatten();
    let tokens = sources.into_iter().filter_map(|source| source.service_account_token.as_ref());
    tokens.map(|token| token.audience.clone().unwrap_or_default()).collect()
}

fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten())
}

/// Creates or updates every volume of the pod. Returns the folder of each.
pub(crate) fn mount(
    pod: &Pod,
    site: &Site,
    sources: &Sources,
    facts: &PodFacts,
) -> Result<BTreeMap<String, PathBuf>, VolumeError> {
    let mut folders = BTreeMap::new();
    for volume in volumes(pod) {
        let folder = set_up(volume, pod, site, sources, facts).map_err(VolumeError::of(&volume.name))?;
        folders.insert(volume.name.clone(), folder);
    }
    Ok(folders)
}

fn set_up(
    volume: &Volume,
    pod: &Pod,
    site: &Site,
    sources: &Sources,
    facts: &PodFacts,
) -> Result<PathBuf, SetUpProblem> {
    check_name(&volume.name)?;
    let own = site.pod_dir.join("volumes").join(&volume.name);
    if let Some(host) = &volume.host_path {
        return host_path(&host.path, host.type_.as_deref().unwrap_or_default());
    }
    if let Some(claim) = &volume.persistent_volume_claim {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        check_name(namespace)?;
        check_name(&claim.claim_name)?;
        return create(site.claims_dir.join(namespace).join(&claim.claim_name));
    }
    if let Some(files) = content::of(volume, pod, sources, facts, &site.tokens)? {
        let own = create(own)?;
        files::write(&own, &files).map_err(SetUpProblem::write(&own))?;
        return Ok(own);
    }
    if volume.empty_dir.is_some()
        || volume.ephemeral.is_some()
        || is_bare(volume)
        || (volume.image.is_some() && site.simulator)
    {
        return create(own);
    }
    let message = if volume.image.is_some() {
        "an OCI image cannot be a volume without a container runtime: use hf://, s3:// or pvc://"
    } else {
        "this kind of volume needs a cluster; this machine supports emptyDir, ephemeral, hostPath, \
         persistentVolumeClaim, configMap, secret, downwardAPI and projected"
    };
    Err(SetUpProblem::Unsupported(message.to_owned()))
}

/// A volume without a source is an emptyDir.
fn is_bare(volume: &Volume) -> bool {
    *volume == Volume { name: volume.name.clone(), ..Volume::default() }
}

/// Refuses a name that would lead out of its folder.
fn check_name(name: &str) -> Result<(), SetUpProblem> {
    if private::is_name(name) {
        return Ok(());
    }
    let message = format!("invalid name `{name}`: it would lead out of the state directory");
    Err(SetUpProblem::Unsupported(message))
}

fn create(folder: PathBuf) -> Result<PathBuf, SetUpProblem> {
    private::create_dir(&folder).map_err(SetUpProblem::write(&folder))?;
    Ok(folder)
}

fn host_path(path: &str, kind: &str) -> Result<PathBuf, SetUpProblem> {
    let folder = PathBuf::from(path);
    let is =
        |wanted: fn(&FileType) -> bool| folder.metadata().is_ok_and(|metadata| wanted(&metadata.file_type()));
    let fits = match kind {
        "DirectoryOrCreate" => return create(folder),
        "FileOrCreate" => {
            if !folder.exists() {
                fs::File::create(&folder).map_err(SetUpProblem::write(&folder))?;
            }
            folder.is_file()
        }
        "Directory" => folder.is_dir(),
        "File" => folder.is_file(),
        "Socket" => is(FileType::is_socket),
        "CharDevice" => is(FileType::is_char_device),
        "BlockDevice" => is(FileType::is_block_device),
        // Without a type, nothing is checked.
        _ => true,
    };
    let message = || format!("hostPath type check failed: {path} is not a {kind}");
    if fits { Ok(folder) } else { Err(SetUpProblem::Unsupported(message())) }
}

/// Returns the path rewriting of one container: its mounts, and the `implicit` ones of every container, which its own replace.
/// Creates the missing folders of subPaths.
pub(crate) fn path_map<'p>(
    container: &Container,
    folders: &BTreeMap<String, PathBuf>,
    env: &BTreeMap<String, String>,
    implicit: impl IntoIterator<Item = (&'p str, PathBuf)>,
) -> Result<PathMap, VolumeError> {
    let implicit = implicit.into_iter();
    let mut entries: Vec<_> =
        implicit.map(|(path, local)| (path.to_owned(), local.to_string_lossy().into_owned())).collect();
    for mount in container.volume_mounts.iter().flatten() {
        let folder = folders.get(&mount.name).ok_or_else(|| VolumeError::NoSuchVolume {
            container: container.name.clone(),
            volume: mount.name.clone(),
        })?;
        let sub_path = match (&mount.sub_path, &mount.sub_path_expr) {
            (Some(path), _) if !path.is_empty() => path.clone(),
            (_, Some(path)) => expand(path, |name| env.get(name).map(String::as_str)),
            _ => String::new(),
        };
        if Path::new(&sub_path).is_absolute() || sub_path.split('/').any(|part| part == "..") {
            return Err(VolumeError::SubPath { container: container.name.clone(), path: sub_path });
        }
        let local = if sub_path.is_empty() { folder.clone() } else { folder.join(&sub_path) };
        // As in the kubelet, a subPath that is missing becomes a folder.
        if !local.exists() {
            create(local.clone()).map_err(VolumeError::of(&mount.name))?;
        }
        // A mount at one of the implicit paths replaces it.
        entries.retain(|(path, _)| *path != mount.mount_path.trim_end_matches('/'));
        entries.push((mount.mount_path.clone(), local.to_string_lossy().into_owned()));
    }
    Ok(PathMap::new(entries))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use serde_json::json;

    use super::*;

    struct World {
        dir: tempfile::TempDir,
        site: Site,
    }

    fn world() -> World {
        let dir = tempfile::tempdir().unwrap();
        let site = Site {
            pod_dir: dir.path().join("pod"),
            claims_dir: dir.path().join("claims"),
            tokens: [("", "the-token"), ("vault", "another")]
                .map(|(audience, token)| (audience.to_owned(), token.to_owned()))
                .into(),
            simulator: true,
        };
        World { dir, site }
    }

    fn facts() -> PodFacts {
        PodFacts { pod_ip: "127.64.0.1".into(), host_ip: "127.0.0.1".into(), node_name: "n".into() }
    }

    fn pod(volumes: &serde_json::Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "ns", "labels": {"app": "x"}},
            "spec": {"containers": [], "volumes": volumes}}))
        .unwrap()
    }

    fn map(name: &str, value: &str) -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": name}, "data": {"key": value}})).unwrap()
    }

    #[test]
    fn files_come_from_objects_and_change_with_them() {
        let world = world();
        let secret: Secret = serde_json::from_value(
            json!({"metadata": {"name": "s"}, "data": {"tls.crt": "Y2VydA==", "tls.key": "a2V5"}}),
        )
        .unwrap();
        let pod = pod(&json!([
            {"name": "config", "configMap": {"name": "c"}},
            {"name": "tls", "secret": {"secretName": "s", "items": [{"key": "tls.crt", "path": "sub/cert.pem"}]}},
            {"name": "gone", "secret": {"secretName": "absent", "optional": true}},
            {"name": "info", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            {"name": "all", "projected": {"sources": [
                {"serviceAccountToken": {"path": "token"}},
                {"serviceAccountToken": {"path": "vault", "audience": "vault"}},
                {"configMap": {"name": "c", "items": [{"key": "key", "path": "renamed"}]}},
                {"downwardAPI": {"items": [{"path": "ns", "fieldRef": {"fieldPath": "metadata.namespace"}}]}}]}},
        ]));
        let sources = Sources::of(vec![map("c", "one")], vec![secret.clone()]);
        let folders = mount(&pod, &world.site, &sources, &facts()).unwrap();
        let read = |volume: &str, file: &str| fs::read_to_string(folders[volume].join(file)).unwrap();
        assert_eq!(read("config", "key"), "one");
        assert_eq!(read("tls", "sub/cert.pem"), "cert");
        assert!(!folders["tls"].join("tls.key").exists());
        assert_eq!(
            fs::read_dir(&folders["gone"])
                .unwrap()
                .filter(|e| !e.as_ref().unwrap().file_name().to_string_lossy().starts_with(".."))
                .count(),
            0
        );
        assert_eq!(read("info", "labels"), "app=\"x\"");
        assert_eq!(
            (read("all", "token"), read("all", "renamed"), read("all", "ns")),
            ("the-token".into(), "one".into(), "ns".into())
        );
        assert_eq!(read("all", "vault"), "another");

        let sources = Sources::of(vec![map("c", "two")], vec![secret]);
        mount(&pod, &world.site, &sources, &facts()).unwrap();
        assert_eq!(read("config", "key"), "two");
    }

    #[test]
    fn claims_stay_and_the_rest_goes_with_the_pod() {
        let world = world();
        let pod = pod(&json!([
            {"name": "scratch", "emptyDir": {"medium": "Memory"}},
            {"name": "models", "persistentVolumeClaim": {"claimName": "weights"}},
            {"name": "host", "hostPath": {"path": world.dir.path(), "type": "Directory"}},
            {"name": "image", "image": {"reference": "reg/model"}},
        ]));
        let folders = mount(&pod, &world.site, &Sources::default(), &facts()).unwrap();
        assert_eq!(folders["scratch"], world.site.pod_dir.join("volumes/scratch"));
        assert_eq!(folders["models"], world.site.claims_dir.join("ns/weights"));
        assert_eq!(folders["host"], world.dir.path());
        assert!(folders.values().all(|folder| folder.is_dir()));
    }

    #[test]
    fn what_cannot_be_mounted_is_said() {
        let world = world();
        let error = |volumes: serde_json::Value| {
            mount(&pod(&volumes), &world.site, &Sources::default(), &facts()).unwrap_err().to_string()
        };
        assert_eq!(
            error(json!([{"name": "tls", "secret": {"secretName": "s"}}])),
            "MountVolume.SetUp failed for volume \"tls\" : secret \"s\" not found"
        );
        assert!(
            error(json!([{"name": "n", "nfs": {"server": "s", "path": "/"}}])).contains("needs a cluster")
        );
        for (path, kind) in [
            ("/nowhere", "Directory"),
            ("/", "File"),
            ("/dev/null", "Socket"),
            ("/dev/null", "BlockDevice"),
            ("/", "CharDevice"),
        ] {
            let message = error(json!([{"name": "h", "hostPath": {"path": path, "type": kind}}]));
            assert!(message.contains(&format!("{path} is not a {kind}")), "{message}");
        }
        let device = json!([{"name": "h", "hostPath": {"path": "/dev/null", "type": "CharDevice"}}]);
        assert!(mount(&pod(&device), &world.site, &Sources::default(), &facts()).is_ok());
    }

    #[test]
    fn no_name_leads_out_of_the_state_directory() {
        let world = world();
        for name in ["../../outside", "..", "/outside", "a/b"] {
            let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": name}}]);
            let error = mount(&pod(&volumes), &world.site, &Sources::default(), &facts()).unwrap_err();
            assert!(error.to_string().contains("lead out of the state directory"), "{error}");
            let volumes = json!([{"name": name, "emptyDir": {}}]);
            assert!(mount(&pod(&volumes), &world.site, &Sources::default(), &facts()).is_err(), "{name}");
        }
        assert_eq!(fs::read_dir(world.dir.path()).unwrap().count(), 0, "something was made");
    }

    #[test]
    fn secrets_are_for_their_user_alone() {
        use std::os::unix::fs::PermissionsExt;
        let world = world();
        let secret: Secret =
            serde_json::from_value(json!({"metadata": {"name": "s"}, "data": {"key": "a2V5"}})).unwrap();
        let volumes = json!([{"name": "s", "secret": {"secretName": "s", "defaultMode": 420}}]);
        let folders =
            mount(&pod(&volumes), &world.site, &Sources::of(Vec::new(), vec![secret]), &facts()).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folders["s"].join("key")), 0o600);
        for folder in folders["s"].join("..data").ancestors().take_while(|f| *f != world.dir.path()) {
            assert_eq!(mode(folder), 0o700, "{}", folder.display());
        }
    }

    #[test]
    fn mounts_map_to_folders_with_sub_paths() {
        let world = world();
        let folder = world.dir.path().join("v");
        let folders = [("v".to_owned(), folder.clone())].into();
        let container = |mounts| -> Container {
            serde_json::from_value(json!({"name": "c", "volumeMounts": mounts})).unwrap()
        };
        let env = [("N".to_owned(), "x".to_owned())].into();
        let implicit = || [(SERVICE_ACCOUNT, "/sa".into()), ("/dev/termination-log", "/tl".into())];
        let make = |mounts| path_map(&container(mounts), &folders, &env, implicit());
        let paths = make(json!([
            {"name": "v", "mountPath": "/data", "subPath": "a/b"},
            {"name": "v", "mountPath": "/expr", "subPathExpr": "$(N)"},
        ]))
        .unwrap();
        assert_eq!(paths.rewrite("/data/f"), format!("{}/a/b/f", folder.display()));
        assert_eq!(paths.rewrite("/expr"), format!("{}/x", folder.display()));
        assert!(folder.join("a/b").is_dir());
        assert_eq!(paths.rewrite("/var/run/secrets/kubernetes.io/serviceaccount/token"), "/sa/token");
        assert_eq!(paths.rewrite("/dev/termination-log"), "/tl");
        assert!(make(json!([{"name": "no", "mountPath": "/x"}])).is_err());
        assert!(make(json!([{"name": "v", "mountPath": "/x", "subPath": "../y"}])).is_err());
    }
}
