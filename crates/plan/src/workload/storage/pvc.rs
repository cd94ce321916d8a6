//! Models on a persistent volume claim of the user.

use k8s_openapi::api::core::v1::{PersistentVolumeClaimVolumeSource, PodSpec, Volume, VolumeMount};
use longboat_download::address::Address;

use super::attachment::Attachment;
use crate::workload::pod_spec::{add_volume, container_mut};

pub(super) const VOLUME: &str = "kserve-pvc-source";

/// Mounts the claim of `pvc://CLAIM[/PATH]` read-only at the model's path. The volume itself is not read-only, because some claims with a
/// single writer could not be attached that way.
pub(super) fn attach(pod: &mut PodSpec, address: &Address, attachment: &Attachment) {
    let (claim, path) = (address.host(), address.path());
    let Some(main) = container_mut(pod, attachment.container) else { return };
    let mounts = main.volume_mounts.get_or_insert_default();
    if mounts.iter().any(|mount| mount.name == VOLUME) {
        return;
    }
    mounts.push(VolumeMount {
        name: VOLUME.into(),
        mount_path: attachment.path.into(),
        sub_path: Some(path.to_owned()).filter(|path| !path.is_empty()),
        read_only: Some(true),
        ..VolumeMount::default()
    });
    let source = PersistentVolumeClaimVolumeSource { claim_name: claim.into(), read_only: None };
    add_volume(
        pod,
        Volume { name: VOLUME.into(), persistent_volume_claim: Some(source), ..Volume::default() },
    );
}
