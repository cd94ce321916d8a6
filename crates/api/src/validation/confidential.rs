//! Rules for confidential models.

use longboat_download::address::Scheme;

use super::Report;
use crate::v1alpha2::ModelSpec;

/// Checks the settings of a model whose files are encrypted.
pub(super) fn check(model: &ModelSpec, report: &mut Report) {
    let Some(confidential) = model.confidential.as_ref().filter(|c| c.enabled) else { return };
    match model.uri.address().scheme() {
        Scheme::Oci => report.warn(
            "confidential has no effect with OCI URIs; OCI image decryption is handled by the container runtime via \
             runtimeClassName",
        ),
        Scheme::Claim => report.warn("confidential has no effect with PVC URIs; nothing is fetched for them"),
        _ => {}
    }
    if let Some(id) = confidential.resource_id.as_deref().filter(|id| !id.is_empty() && !is_resource(id)) {
        report.invalid(
            "spec.model.confidential.resourceId",
            &id,
            "must be in the format kbs:///<repo>/<type>/<tag>",
        );
    }
}

fn is_resource(id: &str) -> bool {
    let part = |p: &str| !p.is_empty() && p.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
    id.strip_prefix("kbs:///").is_some_and(|path| path.split('/').count() == 3 && path.split('/').all(part))
}
