//! Deletes children that are no longer planned.

use kube::api::{DeleteParams, Preconditions};
use longboat_api::{
    labels::{self, COMPONENT},
    reasons::event,
};
use longboat_plan::{ChildKind, ObjectRef, Problem, types};
use longboat_watch::has_code;

use crate::{context::Context, error::ReconcileError, events::Subject, watch::kinds::WatchedKind};

/// Why a child was not deleted, and the problem of the service for its status.
type DeletionError = (ReconcileError, Problem);

/// Deletes a child, if it is still the object that was planned against.
pub(crate) async fn child(
    context: &Context,
    subject: &Subject,
    object: &ObjectRef,
) -> Result<(), DeletionError> {
    macro_rules! each {
        ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {
            match object.kind {
                $(ChildKind::$kind => delete::<types::$kind>(context, subject, object).await,)*
            }
        };
    }
    longboat_plan::kinds!(children each)
}

async fn delete<K: WatchedKind>(
    context: &Context,
    subject: &Subject,
    object: &ObjectRef,
) -> Result<(), DeletionError> {
    let key = &object.key;
    let Some(live) = K::cache(&context.caches).get(key) else { return Ok(()) };
    let namespace = (!key.namespace.is_empty()).then_some(key.namespace.as_deref());
    let preconditions = Preconditions { uid: live.metadata().uid.clone(), resource_version: None };
    let params = DeleteParams::background().preconditions(preconditions);
    match K::api(&context.client, namespace).delete(&key.name, &params).await {
        Ok(_) => {
            // The watch reports the deletion later. Until then the object must not count as live.
            K::cache(&context.caches).remove(live.metadata());
            tracing::info!(service = %subject.key, child = %object, "Deleted a child.");
            context.events.normal(subject, event::DELETED, format!("{} {object}", event::DELETED));
            Ok(())
        }
        Err(error) if has_code(&error, 404) => {
            K::cache(&context.caches).remove(live.metadata());
            Ok(())
        }
        Err(error) => {
            let error = ReconcileError::request(format!("delete {object}"), error);
            let problem = Problem::of_child(object, labels::value(live.metadata(), COMPONENT), &error);
            Err((error, problem))
        }
    }
}
