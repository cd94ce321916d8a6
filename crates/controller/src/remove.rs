//! Removes children that are no longer planned.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Secret, Service, ServiceAccount},
    rbac::v1::{ClusterRoleBinding, Role, RoleBinding},
};
use kube::api::{DeleteParams, Preconditions};
use longboat_api::{
    foreign::{httproute::HTTPRoute, inferencepool::InferencePool, inferencepool_x},
    reasons::event,
};
use longboat_plan::{ChildKind, ObjectRef};

use crate::{
    context::Context,
    error::{PassError, has_code},
    events::Subject,
    key::Key,
    watch::Watched,
};

/// Deletes one child, if it is still the one that was looked at.
pub(crate) async fn one(context: &Context, subject: &Subject, object: &ObjectRef) -> Result<(), PassError> {
    match object.kind {
        ChildKind::ConfigMap => delete::<ConfigMap>(context, subject, object).await,
        ChildKind::Secret => delete::<Secret>(context, subject, object).await,
        ChildKind::ServiceAccount => delete::<ServiceAccount>(context, subject, object).await,
        ChildKind::Role => delete::<Role>(context, subject, object).await,
        ChildKind::RoleBinding => delete::<RoleBinding>(context, subject, object).await,
        ChildKind::ClusterRoleBinding => delete::<ClusterRoleBinding>(context, subject, object).await,
        ChildKind::Deployment => delete::<Deployment>(context, subject, object).await,
        ChildKind::Service => delete::<Service>(context, subject, object).await,
        ChildKind::InferencePool => delete::<InferencePool>(context, subject, object).await,
        ChildKind::InferencePoolX => delete::<inferencepool_x::InferencePool>(context, subject, object).await,
        ChildKind::HTTPRoute => delete::<HTTPRoute>(context, subject, object).await,
    }
}

async fn delete<K: Watched>(
    context: &Context,
    subject: &Subject,
    object: &ObjectRef,
) -> Result<(), PassError> {
    let key = Key::new(&object.namespace, &object.name);
    let Some(live) = K::cache(&context.caches).get(&key) else { return Ok(()) };
    let namespace = (!object.namespace.is_empty()).then_some(object.namespace.as_str());
    let preconditions = Preconditions { uid: live.metadata().uid.clone(), resource_version: None };
    let params = DeleteParams::background().preconditions(preconditions);
    match K::api(&context.client, namespace).delete(&object.name, &params).await {
        Ok(_) => {
            // The watch says so too; until then the object must not count as live.
            K::cache(&context.caches).remove(&live);
            tracing::info!(service = %subject.key, child = %object, "Deleted a child.");
            context.events.normal(subject, event::DELETED, format!("{} {object}", event::DELETED));
            Ok(())
        }
        Err(error) if has_code(&error, 404) => Ok(()),
        Err(error) => Err(PassError::request(format!("delete {object}"), error)),
    }
}
