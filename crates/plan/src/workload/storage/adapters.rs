//! The volumes of LoRA adapters that are on persistent volume claims.

use k8s_openapi::api::core::v1::{PersistentVolumeClaimVolumeSource, PodSpec, Volume, VolumeMount};
use longboat_api::{child_name, safe_name::safe_object_name};
use longboat_compose::{Adapter, AdapterSource};

use crate::workload::pod_spec::{MAIN, add_mount, add_volume, container, container_mut};

/// The start of the names of volumes that are for adapters only.
const VOLUME_PREFIX: &str = "lora-";

/// Mounts the adapters that are on persistent volume claims. `live` is the pod spec that runs now: it keeps its volumes, so that
/// no pod restarts just because a new pod would have others.
pub(super) fn mount_claims(pod: &mut PodSpec, adapters: &[Adapter], live: Option<&PodSpec>) {
    let Some(main) = container_mut(pod, MAIN) else { return };
    let mounts = main.volume_mounts.clone().unwrap_or_default();
    // What the workload mounts at the path of an adapter is the adapter. An API server takes a path with a slash at its end for
    // another one, but two mounts at one place would hide each other.
    let is_mounted = |adapter: &&Adapter| {
        mounts.iter().any(|mount| mount.mount_path.trim_end_matches('/') == adapter.mount_path)
    };
    let of_claims: Vec<&Adapter> = adapters
        .iter()
        .filter(|adapter| adapter.source == AdapterSource::Claim && !is_mounted(adapter))
        .collect();
    for adapter in &of_claims {
        let (claim, path) = (adapter.address.host(), adapter.address.path());
        let of_claim = |volume: &&Volume| {
            volume.persistent_volume_claim.as_ref().is_some_and(|source| source.claim_name == claim)
        };
        let present = || pod.volumes.iter().flatten().find(of_claim).map(|volume| volume.name.clone());
        let is_free = |name: &String| {
            pod.volumes.iter().flatten().all(|volume| volume.name != *name || of_claim(&volume))
        };
        let running = live_volume(live, adapter).filter(is_free);
        let name = running.or_else(present).unwrap_or_else(|| {
            let mut names = [("lora-pvc-", &*adapter.name), ("lora-claim-", claim)]
                .map(|(prefix, of)| safe_object_name(&child_name(prefix, of)));
            if of_claims.iter().filter(|other| other.address.host() == claim).count() > 1 {
                names.reverse();
            }
            // The other name is for pods where the workload has a volume of this name with something else in it.
            let index = usize::from(!is_free(&names[0]) && is_free(&names[1]));
            names[index].clone()
        });
        let Some(main) = container_mut(pod, MAIN) else { return };
        let mount = VolumeMount {
            name: name.clone(),
            mount_path: adapter.mount_path.clone(),
            sub_path: Some(path.to_owned()).filter(|path| !path.is_empty()),
            read_only: Some(true),
            ..VolumeMount::default()
        };
        add_mount(main, mount);
        let source = PersistentVolumeClaimVolumeSource { claim_name: claim.into(), read_only: None };
        add_volume(pod, Volume { name, persistent_volume_claim: Some(source), ..Volume::default() });
    }
}

/// The volume through which a running pod has an adapter.
fn live_volume(live: Option<&PodSpec>, adapter: &Adapter) -> Option<String> {
    let live = live?;
    let mut mounts = container(live, MAIN)?.volume_mounts.iter().flatten();
    let mount = mounts
        .find(|mount| mount.mount_path == adapter.mount_path && mount.name.starts_with(VOLUME_PREFIX))?;
    let volume = live.volumes.iter().flatten().find(|volume| volume.name == mount.name)?;
    let claim = &volume.persistent_volume_claim.as_ref()?.claim_name;
    (claim == adapter.address.host()).then(|| volume.name.clone())
}

#[cfg(test)]
mod tests {
    use longboat_api::v1alpha2::LLMInferenceServiceSpec;
    use longboat_compose::adapters;
    use serde_json::{Value, json};

    use super::*;

    /// Returns `VOLUME CLAIM` for each volume, and `PATH VOLUME SUBPATH` for each mount of the container that serves.
    fn mounted(pod: Value, named: &[(&str, &str)], live: Option<&PodSpec>) -> (PodSpec, Vec<String>) {
        let named: Vec<Value> = named.iter().map(|(name, uri)| json!({"name": name, "uri": uri})).collect();
        let spec = json!({"model": {"uri": "hf://o/m", "name": "m", "lora": {"adapters": named}}});
        let spec: LLMInferenceServiceSpec = serde_json::from_value(spec).unwrap();
        let mut pod: PodSpec = serde_json::from_value(pod).unwrap();
        mount_claims(&mut pod, &adapters(&spec).unwrap(), live);
        let volumes = pod.volumes.iter().flatten().map(|volume| {
            let claim = volume.persistent_volume_claim.as_ref().map_or("", |source| &*source.claim_name);
            format!("{} {claim}", volume.name)
        });
        let mounts = pod.containers[0].volume_mounts.iter().flatten().map(|mount| {
            format!("{} {} {}", mount.mount_path, mount.name, mount.sub_path.as_deref().unwrap_or_default())
        });
        let all = volumes.chain(mounts).collect();
        (pod, all)
    }

    fn empty() -> Value {
        json!({"containers": [{"name": "main"}]})
    }

    fn with_model() -> Value {
        json!({
            "containers": [{"name": "main", "volumeMounts": [{"name": "kserve-pvc-source", "mountPath": "/mnt/models"}]}],
            "volumes": [{"name": "kserve-pvc-source", "persistentVolumeClaim": {"claimName": "c"}}],
        })
    }

    #[test]
    fn a_claim_of_one_adapter_has_its_volume_and_a_shared_one_has_one_volume() {
        let (_, one) = mounted(empty(), &[("sql", "pvc://c/s"), ("Org/A.b", "pvc://d")], None);
        let odd = safe_object_name("lora-pvc-Org/A.b");
        assert_eq!(
            one,
            [
                format!("{odd} d"),
                "lora-pvc-sql c".into(),
                format!("/mnt/lora/Org-A.b {odd} "),
                "/mnt/lora/sql lora-pvc-sql s".into(),
            ]
        );
        let long = "this-is-a-really-long-lora-adapter-name-more-than-fifty-four-chars-long";
        let (pod, _) = mounted(empty(), &[(long, "pvc://c")], None);
        assert_eq!(
            pod.volumes.unwrap()[0].name,
            "lora-pvc-5d8eaf1abb940b210da12d4306b94f8ethis-is-a-really-long"
        );
        let (_, shared) = mounted(empty(), &[("b", "pvc://c/b"), ("a", "pvc://c/a"), ("x", "pvc://d")], None);
        assert_eq!(
            shared,
            [
                "lora-claim-c c",
                "lora-pvc-x d",
                "/mnt/lora/a lora-claim-c a",
                "/mnt/lora/b lora-claim-c b",
                "/mnt/lora/x lora-pvc-x ",
            ]
        );
        let (_, reused) = mounted(with_model(), &[("a", "pvc://c/a")], None);
        assert_eq!(
            reused,
            ["kserve-pvc-source c", "/mnt/models kserve-pvc-source ", "/mnt/lora/a kserve-pvc-source a"]
        );
    }

    #[test]
    fn a_mount_of_the_workload_at_the_path_of_an_adapter_is_left_alone() {
        for path in ["/mnt/lora/a", "/mnt/lora/a/"] {
            let mut own = empty();
            own["containers"][0]["volumeMounts"] = json!([{"name": "mine", "mountPath": path}]);
            own["volumes"] = json!([{"name": "mine", "emptyDir": {}}]);
            let (_, found) = mounted(own, &[("a", "pvc://c/a"), ("b", "pvc://c/b")], None);
            let at = format!("{path} mine ");
            assert_eq!(found, ["mine ", "lora-pvc-b c", &at, "/mnt/lora/b lora-pvc-b b"]);
        }
    }

    #[test]
    fn a_volume_of_the_workload_is_not_taken_for_the_claim_because_of_its_name() {
        let mut own = empty();
        own["volumes"] = json!([{"name": "lora-pvc-a", "emptyDir": {}}]);
        let (_, found) = mounted(own, &[("a", "pvc://c/a")], None);
        assert_eq!(found, ["lora-pvc-a ", "lora-claim-c c", "/mnt/lora/a lora-claim-c a"]);
    }

    #[test]
    fn a_running_pod_keeps_the_volumes_that_it_has() {
        let mut live = with_model();
        live["containers"][0]["volumeMounts"] = json!([
            {"name": "kserve-pvc-source", "mountPath": "/mnt/models"},
            {"name": "lora-pvc-a", "mountPath": "/mnt/lora/a", "subPath": "a"},
            {"name": "lora-pvc-b", "mountPath": "/mnt/lora/b", "subPath": "b"},
        ]);
        for (name, claim) in [("lora-pvc-a", "c"), ("lora-pvc-b", "c")] {
            let volume = json!({"name": name, "persistentVolumeClaim": {"claimName": claim}});
            live["volumes"].as_array_mut().unwrap().push(volume);
        }
        let live: PodSpec = serde_json::from_value(live).unwrap();
        let (pod, _) = mounted(with_model(), &[("a", "pvc://c/a"), ("b", "pvc://c/b")], Some(&live));
        assert_eq!(pod.volumes, live.volumes);
        // An adapter that is now elsewhere is not looked for in the old claim.
        let (pod, found) = mounted(empty(), &[("a", "pvc://d/a")], Some(&live));
        assert_eq!(found, ["lora-pvc-a d", "/mnt/lora/a lora-pvc-a a"]);
        assert_eq!(pod.volumes.unwrap().len(), 1);
    }
}
