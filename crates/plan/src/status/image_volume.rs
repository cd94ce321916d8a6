//! Warns about clusters that cannot mount images as volumes. The warning does not affect readiness.

use longboat_api::{
    conditions::{Conditions, types},
    reasons::condition::{IMAGE_VOLUME_ALPHA, IMAGE_VOLUME_SUB_PATH_UNSUPPORTED, IMAGE_VOLUME_UNSUPPORTED},
};
use longboat_compose::platform::OciMode;

use crate::context::Context;

/// Reports only if the platform mounts model images as volumes, and the cluster's version cannot do that.
pub(super) fn report(context: &Context, conditions: &mut Conditions) {
    let native = context.snapshot.platform.storage.oci_mode == Some(OciMode::Native);
    let version = context.snapshot.capabilities.kubernetes.filter(|_| native);
    let Some((major, minor)) = version.filter(|version| *version < (1, 35)) else {
        conditions.clear(types::OCI_IMAGE_VOLUME_COMPATIBLE);
        return;
    };
    let cluster = format!("Cluster K8s {major}.{minor}");
    // The major version is 1 here, so the minor one decides.
    let (reason, message) = match minor {
        ..31 => (
            IMAGE_VOLUME_UNSUPPORTED,
            format!(
                "{cluster} does not support ImageVolume (requires K8s 1.31+). Use ociModelMode modelcar instead."
            ),
        ),
        31 | 32 => (
            IMAGE_VOLUME_SUB_PATH_UNSUPPORTED,
            format!(
                "{cluster} does not support subPath on ImageVolume (requires K8s 1.33+). Use ociModelMode modelcar instead."
            ),
        ),
        _ => (
            IMAGE_VOLUME_ALPHA,
            format!(
                "{cluster} has ImageVolume feature-gated (K8s 1.33–1.34 beta). Ensure --feature-gates=ImageVolume=true is \
                 set on kube-apiserver and kubelet."
            ),
        ),
    };
    conditions.mark_false(types::OCI_IMAGE_VOLUME_COMPATIBLE, reason, &message);
}
