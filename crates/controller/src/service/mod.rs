//! One reconcile of a service: observe, compose, plan, apply, report.

mod steps;

use std::sync::Arc;

use jiff::Timestamp;
use longboat_api::{defaulting, names, reasons::event, v1alpha2::LLMInferenceService};
use longboat_key::{Key, Uid};
use longboat_plan as plan;
use steps::{ApplyOutcome, Reconcile, record_dependencies};

use crate::{context::Context, error::ReconcileError, events::Subject, finalizer, observe, remove, status};

/// Brings one service to the state that its spec asks for, as far as that is possible now.
pub(crate) async fn reconcile(context: &Context, key: &Key) -> Result<(), ReconcileError> {
    let Some(stored) = context.caches.inference_services.get(key) else {
        forget(context, key);
        return Ok(());
    };
    let mut service = Arc::unwrap_or_clone(stored);
    let subject = subject_of(&service);
    if service.metadata.deletion_timestamp.is_some() {
        return finalize(context, &subject, &service).await;
    }
    if context.events.ending.contains(key.namespace.as_deref()) {
        // The service is deleted next. Until then its children disappear in any order, and cannot be created again.
        return Ok(());
    }
    if !finalizer::has(&service, names::SERVICE_FINALIZER) {
        finalizer::add(context, &service, names::SERVICE_FINALIZER).await?;
    }
    defaulting::apply_typed(&mut service);
    let result = Box::pin(update(context, &subject, &service)).await;
    let text = match &result {
        Ok(unsolved) => unsolved.clone(),
        Err(ReconcileError::Conflict { .. } | ReconcileError::Status { .. }) => None,
        Err(error) => Some(error.to_string()),
    };
    if context.note_error(key, text.as_deref())
        && let Some(text) = text
        && !is_reported(&service, &text)
    {
        context.events.warning(&subject, event::ERROR, format!("Reconciliation failed: {text}"));
    }
    result.map(drop)
}

/// Whether the status already reports a failure. Another process may have written it.
fn is_reported(service: &LLMInferenceService, text: &str) -> bool {
    let conditions = service.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|found| found.is_false() && found.message == text)
}

fn subject_of(service: &LLMInferenceService) -> Subject {
    Subject {
        key: Key::of(service),
        uid: Uid::of(&service.metadata).to_shared(),
        kind: "LLMInferenceService",
        source: names::SERVICE_EVENT_SOURCE,
    }
}

fn forget(context: &Context, key: &Key) {
    context.index.remove(key);
    context.validator.forget(key);
    context.apply_cache.forget(key);
    context.forget_layers(key);
    context.proofs.forget(key);
    context.downloads.forget(key);
    context.adapters.forget(key);
    context.services.forget(key);
    context.note_error(key, None);
}

/// Returns the problem that blocks the service until something else changes, if there is one.
///
/// # Errors
/// If the reconcile must be retried.
async fn update(
    context: &Context,
    subject: &Subject,
    service: &LLMInferenceService,
) -> Result<Option<String>, ReconcileError> {
    let mut reconcile = Reconcile::new(context, subject, service);
    let observation = reconcile.observe();
    // Before composing: a service that cannot be composed must not send traffic to members that are going.
    let (mut observation, pruned) = Box::pin(reconcile.prune_route(observation)).await;
    let composition = reconcile.compose(&observation);
    let outcome = match composition.spec(service) {
        Some(spec) => {
            let planned = reconcile.plan(spec, &mut observation).await?;
            reconcile.apply(spec, planned, observation).await
        }
        None => ApplyOutcome::unplanned(&composition, observation),
    };
    let unsolved = Box::pin(reconcile.report(composition, outcome)).await?;
    pruned.map(|()| unsolved)
}

/// Deletes the children that have no owner reference, then removes the finalizer.
async fn finalize(
    context: &Context,
    subject: &Subject,
    service: &LLMInferenceService,
) -> Result<(), ReconcileError> {
    if finalizer::has(service, names::SERVICE_FINALIZER) {
        let began = context.index.now();
        // Settings that cannot be used must not keep a service from being deleted.
        let platform = context.platform().unwrap_or_default();
        let snapshot = observe::snapshot(context, &subject.key, platform, Timestamp::now());
        let plan::Finalization { remove, senders, reads } = plan::finalization(service, &snapshot)?;
        // In a namespace that is being deleted, no member updates its route any more.
        if !senders.is_empty() && !context.events.ending.contains(subject.key.namespace.as_deref()) {
            // The service depends on the routes of these members, so it is enqueued when they change.
            record_dependencies(context, &subject.key, reads, began);
            return wait_for(context, subject, service, &senders).await;
        }
        for object in remove {
            remove::child(context, subject, &object).await.map_err(|(error, _)| error)?;
        }
        finalizer::remove(context, service, names::SERVICE_FINALIZER).await?;
    }
    forget(context, &subject.key);
    Ok(())
}

/// Reports which members still send traffic to the service.
async fn wait_for(
    context: &Context,
    subject: &Subject,
    service: &LLMInferenceService,
    senders: &[String],
) -> Result<(), ReconcileError> {
    let message = format!("waiting for member {} to remove backendRef before deletion", senders.join(", "));
    let status = plan::deletion_status(service, &message, Timestamp::now());
    status::publish(context, subject, service, status).await
}
