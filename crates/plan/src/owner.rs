//! Owner references of children.

use k8s_openapi::{
    Metadata,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use longboat_key::Uid;

use crate::{children::ObjectRef, context::Context, labels::Map};

/// Metadata of a namespaced child whose controller is the service.
pub(crate) fn child(context: &Context, name: String, labels: Map) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: Some(context.namespace.into()),
        labels: Some(labels),
        owner_references: Some(vec![OwnerReference {
            api_version: longboat_api::v1alpha2::API_VERSION.into(),
            kind: "LLMInferenceService".into(),
            name: context.name.into(),
            uid: context.uid.into(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }]),
        ..ObjectMeta::default()
    }
}

/// Whether the controller of an object is the service with that uid.
pub(crate) fn controls(uid: Uid<&str>, metadata: &ObjectMeta) -> bool {
    metadata
        .owner_references
        .iter()
        .flatten()
        .any(|owner| owner.controller == Some(true) && owner.uid == uid.as_str())
}

/// Fails if the live object exists and this service is not its controller.
pub(crate) fn check<K: Metadata<Ty = ObjectMeta>>(
    context: &Context,
    object: &ObjectRef,
    live: Option<&K>,
) -> Result<(), String> {
    match live {
        Some(live) if !controls(context.uid, live.metadata()) => Err(format!(
            "failed to update {object}: it is not controlled by v1alpha2.LLMInferenceService {}/{}",
            context.namespace, context.name
        )),
        _ => Ok(()),
    }
}
