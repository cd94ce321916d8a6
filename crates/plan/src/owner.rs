//! Owner references of children.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use longboat_key::Uid;

/// Whether the controller of an object is the service with that uid.
pub(crate) fn controls(uid: Uid<&str>, metadata: &ObjectMeta) -> bool {
    metadata
        .owner_references
        .iter()
        .flatten()
        .any(|owner| owner.controller == Some(true) && owner.uid == uid.as_str())
}
