//! Volumes for the tiers to which KV cache is offloaded. The presets handle main memory.

use k8s_openapi::{
    api::core::v1::{
        EmptyDirVolumeSource, EphemeralVolumeSource, PersistentVolumeClaimTemplate,
        PersistentVolumeClaimVolumeSource, PodSpec, Volume, VolumeMount,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use longboat_api::v1alpha2::{FileSystemTier, WorkloadSpec};

use super::pod_spec::{MAIN, container_mut};

const STORAGE: &str = "ephemeral-storage";

/// Mounts a volume for each tier, and requests the ephemeral storage that tiers use on the node.
///
/// # Errors
/// If sizes cannot be added.
pub(super) fn attach(workload: &WorkloadSpec, pod: &mut PodSpec) -> Result<(), String> {
    let Some(offloading) = &workload.kv_cache_offloading else { return Ok(()) };
    for (position, tier) in offloading.secondary.iter().enumerate() {
        let Some(tier) = &tier.file_system else { continue };
        let name = format!("kv-cache-secondary-{position}");
        let Some((volume, path)) = volume(tier, &name) else { continue };
        let Some(main) = container_mut(pod, MAIN) else { return Ok(()) };
        main.volume_mounts.get_or_insert_default().push(VolumeMount {
            name,
            mount_path: format!("/mnt/kv-cache-{position}"),
            sub_path: path,
            ..VolumeMount::default()
        });
        if let Some(size) = volume.empty_dir.as_ref().and_then(|source| source.size_limit.as_ref()) {
            // Without a request, the pod may come to a node without this room, which then evicts it.
            let requests = main.resources.get_or_insert_default().requests.get_or_insert_default();
            let sum = match requests.get(STORAGE) {
                None => size.clone(),
                Some(present) => Quantity(sum(&present.0, &size.0).ok_or_else(|| {
                    format!(
                        "spec.kvCacheOffloading.secondary[{position}]: cannot add {:?} to the {STORAGE} request {:?}",
                        size.0, present.0
                    )
                })?),
            };
            requests.insert(STORAGE.into(), sum);
        }
        pod.volumes.get_or_insert_default().push(volume);
    }
    Ok(())
}

/// Adds two quantities. Returns `None` if one does not parse or the sum overflows.
fn sum(a: &str, b: &str) -> Option<String> {
    let sum = longboat_quantity::Quantity::parse(a)? + longboat_quantity::Quantity::parse(b)?;
    Some(sum?.to_string())
}

/// The volume of a tier, and the folder in it. Returns `None` for an empty tier.
fn volume(tier: &FileSystemTier, name: &str) -> Option<(Volume, Option<String>)> {
    let volume = Volume { name: name.to_owned(), ..Volume::default() };
    if let Some(empty) = &tier.empty_dir {
        let source = EmptyDirVolumeSource {
            size_limit: Some(empty.size.0.clone()),
            ..EmptyDirVolumeSource::default()
        };
        return Some((Volume { empty_dir: Some(source), ..volume }, None));
    }
    let claim = tier.pvc.as_ref()?;
    if let Some(spec) = &claim.spec {
        let template = PersistentVolumeClaimTemplate { metadata: None, spec: spec.clone() };
        let source = EphemeralVolumeSource { volume_claim_template: Some(template) };
        return Some((Volume { ephemeral: Some(source), ..volume }, None));
    }
    let reference = claim.ref_.as_ref()?;
    let source = PersistentVolumeClaimVolumeSource { claim_name: reference.name.clone(), read_only: None };
    let path = Some(reference.path.clone()).filter(|path| !path.is_empty());
    Some((Volume { persistent_volume_claim: Some(source), ..volume }, path))
}
