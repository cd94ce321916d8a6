//! One reconcile of a service: observe, compose, plan, apply, report.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use longboat_api::{
    annotations, defaulting, names,
    reasons::{condition as reason, event},
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec, LLMInferenceServiceStatus},
};
use longboat_compose::{
    Inputs, Platform, Retry,
    outcome::{AppliedConfigs, Outcome as Composition},
    platform::PlatformError,
};
use longboat_key::{Key, Uid};
use longboat_plan::{self as plan, Children, ObjectKey, Plan, Problem, Snapshot};
use longboat_store::Moment;
use tracing::Instrument;

use crate::{
    apply,
    context::Context,
    error::ReconcileError,
    events::Subject,
    finalizer,
    lookups::Lookups,
    metrics::Phase,
    observe, refusal, remove,
    secrets::{self, Unread},
    spans, status,
};

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
        Err(ReconcileError::Conflict { .. }) => None,
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
    context.judge.forget(key);
    context.settled.forget(key);
    context.forget_layers(key);
    context.proofs.forget(key);
    context.downloads.forget(key);
    context.services.forget(key);
    context.note_error(key, None);
}

/// Returns the problem that blocks the service until something else changes, if there is one. An error means that the
/// reconcile is retried.
async fn update(
    context: &Context,
    subject: &Subject,
    service: &LLMInferenceService,
) -> Result<Option<String>, ReconcileError> {
    let (now, began) = (Timestamp::now(), context.index.now());
    let platform = context.platform();
    let known = platform.clone().unwrap_or_else(|_| Arc::new(Platform::default()));
    let mut phases = context.metrics.phases();
    let snapshot =
        spans::phase(Phase::Observe).in_scope(|| observe::snapshot(context, &subject.key, known, now));
    phases.end(Phase::Observe);

    let Composed { spec, composition, mut seen, pins } = spans::phase(Phase::Compose)
        .in_scope(|| compose(context, subject, service, &snapshot, platform.as_ref().err()));
    phases.end(Phase::Compose);
    let pins = pins.unwrap_or_else(|| {
        context.preset_names.pin(service.status.as_ref().map(|status| &status.annotations))
    });

    // Without a spec to plan, the children stay as they are.
    let spec = match composition.stop {
        Some(_) => None,
        None => Some(spec.as_deref().filter(|_| !composition.use_own_spec).unwrap_or(&service.spec)),
    };
    let (done, after, observed) = match spec {
        None => {
            let verdict = match composition.stop {
                Some(Retry::Backoff) => Err(ReconcileError::Unfinished(composition.message.clone())),
                _ => Ok(()),
            };
            (Done { children: Children::default(), problem: None, verdict }, snapshot, began)
        }
        Some(spec) => {
            let mut snapshot = snapshot;
            let planned = plan_with_secrets(context, &subject.key, service, spec, &mut snapshot);
            let (planned, denied) = match planned.instrument(spans::phase(Phase::Plan)).await {
                Ok(planned) => (planned, None),
                Err(Unread::Denied(problem)) => (Plan::default(), Some(problem)),
                Err(Unread::Failed(error)) => return Err(error),
            };
            seen.extend(planned.reads.iter().cloned());
            // The dependencies are recorded before the writes, so that a change during the writes enqueues the service.
            if context.index.add(&subject.key, &seen, began) {
                context.services.add(subject.key.clone());
            }
            phases.end(Phase::Plan);
            let is_removing = !planned.remove.is_empty();
            let mut done = match denied {
                Some(problem) => {
                    Done { children: Children::default(), problem: Some(problem), verdict: Ok(()) }
                }
                None => {
                    Box::pin(carry_out(context, subject, service, spec, &snapshot, planned))
                        .instrument(spans::phase(Phase::Apply))
                        .await
                }
            };
            phases.end(Phase::Apply);
            // The status describes the state after the writes, including what others have changed during them. The index does
            // not record deletions and failures.
            let is_same = context.index.now() == began && !is_removing && done.verdict.is_ok();
            let (after, observed) = if is_same {
                (snapshot, began)
            } else {
                apply::refresh(context, &mut done.children);
                let observed = context.index.now();
                (observe::snapshot(context, &subject.key, snapshot.platform.clone(), now), observed)
            };
            (done, after, observed)
        }
    };
    let Done { children, problem, verdict } = done;
    let proof = context.proofs.outcome(&subject.key);
    let download = context.downloads.of(&subject.key);
    let report = plan::Progress {
        presets: &composition,
        pins: &pins,
        spec,
        problem: problem.as_ref(),
        proof: proof.as_deref(),
        download: download.as_ref(),
    };
    let reporting = spans::phase(Phase::Report);
    let status = reporting
        .in_scope(|| plan::status(service, report, &children, &after, now))
        .map_err(|error| not_planned(&error))?;
    let found = failure(&status);
    let due = match spec {
        Some(spec) => plan::proof::next(service, spec, &children, &after, &status),
        None => Ok(None),
    };
    let due = due.map_err(|error| not_planned(&error))?;
    seen.extend(after.reads(subject.uid.as_deref()));
    record_dependencies(context, &subject.key, seen, observed);
    // A conflict is over in a moment: reporting it would make conditions flap.
    if !matches!(verdict, Err(ReconcileError::Conflict { .. })) {
        status::publish(context, subject, service, status).instrument(reporting).await?;
        context.proofs.published(&subject.key, proof.as_ref(), due);
    }
    phases.end(Phase::Report);
    let stopped = composition.stop.is_some().then_some(composition.message);
    verdict.map(|()| stopped.or(problem.map(|problem| problem.message)).or(found))
}

/// Plans the children, and reads the Secrets that planning looked up.
async fn plan_with_secrets(
    context: &Context,
    key: &Key,
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
    snapshot: &mut Snapshot,
) -> Result<Plan, Unread> {
    // Stopping a service needs no Secret.
    if !annotations::is_stopped(service.metadata.annotations.as_ref()) {
        secrets::check(context, key.namespace.as_deref())?;
    }
    loop {
        let planned = plan::children(service, spec, snapshot).map_err(|error| not_planned(&error))?;
        // Planning stops at the first missing Secret. So each iteration reads at least one Secret that exists, and the spec
        // refers to a limited number of them.
        if !secrets::add(context, &planned.missed_secrets, snapshot).await? {
            return Ok(planned);
        }
    }
}

/// Records what a reconcile depends on that began at `began`. If one of these objects has changed since, enqueues the service
/// again.
fn record_dependencies(context: &Context, service: &Key, seen: BTreeSet<ObjectKey>, began: Moment) {
    if context.index.set(service, seen, began) {
        context.services.add(service.clone());
    }
    context.secret_contents.sweep(&context.index);
}

/// Returns the message of a condition that reports a failure, and not just that something takes time.
fn failure(status: &LLMInferenceServiceStatus) -> Option<String> {
    const FAILURES: [&str; 3] = [
        reason::HTTP_ROUTE_RECONCILE_ERROR,
        reason::HTTP_ROUTE_FETCH_ERROR,
        reason::INFERENCE_POOL_FETCH_ERROR,
    ];
    let failed = status
        .conditions
        .iter()
        .find(|found| found.is_false() && FAILURES.contains(&found.reason.as_str()))?;
    Some(failed.message.clone())
}

struct Composed {
    spec: Option<Box<LLMInferenceServiceSpec>>,
    composition: Composition,
    seen: BTreeSet<ObjectKey>,
    pins: Option<std::collections::BTreeMap<String, String>>,
}

/// Merges and renders the layers, and checks whether an API server would accept the result.
fn compose(
    context: &Context,
    subject: &Subject,
    service: &LLMInferenceService,
    snapshot: &Snapshot,
    platform_error: Option<&PlatformError>,
) -> Composed {
    let stopped = annotations::is_stopped(service.metadata.annotations.as_ref());
    if let Some(error) = platform_error {
        return Composed {
            spec: None,
            composition: no_platform(error, stopped),
            seen: BTreeSet::new(),
            pins: None,
        };
    }
    let lookups = Lookups::new(context, snapshot);
    let (effective, advice) = {
        let inputs = Inputs {
            service,
            configs: &lookups,
            config_maps: &lookups,
            platform: &snapshot.platform,
            system_namespace: snapshot.system_namespace.as_deref(),
            preset_names: &context.preset_names,
        };
        let effective = context.composer.compose(&inputs);
        let advice = match &effective {
            Ok(effective) if context.has_new_layers(&subject.key, effective) => {
                context.composer.layer_warnings(&inputs, effective)
            }
            _ => Vec::new(),
        };
        (effective, advice)
    };
    let seen = lookups.seen();
    let effective = match effective {
        Ok(effective) => effective,
        Err(error) => {
            return Composed {
                spec: None,
                composition: Composition::of_error(&error, stopped),
                seen,
                pins: None,
            };
        }
    };
    for warning in effective.warnings.iter().chain(&advice) {
        context.events.once(subject, "Warning", warning.reason, warning.message.clone());
    }
    let rejection = context.judge.rejection(&subject.key, &effective.spec);
    Composed {
        composition: Composition::of_merged(&effective.applied, rejection.as_ref(), stopped),
        spec: Some(effective.spec),
        seen,
        pins: Some(effective.status_annotations),
    }
}

/// The composition if the platform settings cannot be used. A change of their ConfigMap enqueues every service.
fn no_platform(error: &PlatformError, stopped: bool) -> Composition {
    let (message, stop) = if stopped {
        (format!("Service is stopped with warning: {error}"), None)
    } else {
        (error.to_string(), Some(Retry::OnChange))
    };
    Composition {
        status: "False",
        reason: longboat_api::reasons::condition::COMBINE_BASE_ERROR,
        message,
        applied: AppliedConfigs::Keep,
        stop,
        use_own_spec: stopped,
    }
}

struct Done {
    children: Children<plan::Applied>,
    problem: Option<Problem>,
    verdict: Result<(), ReconcileError>,
}

/// Writes the children that differ, deletes those that are no longer planned, and records the planned events.
/// If the API server refuses one of them, nothing is written or deleted.
async fn carry_out(
    context: &Context,
    subject: &Subject,
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
    seen: &Snapshot,
    planned: Plan,
) -> Done {
    let refused = Box::pin(refusal::find(context, service, spec, seen, &planned)).await;
    let is_refused = refused.is_some();
    let Plan { children, certificates, remove, events, problem, .. } = planned;
    for event in events {
        context.events.once(subject, event.type_.as_str(), event.reason, event.message);
    }
    let outcome = Box::pin(apply::all(context, subject, seen, children, certificates, refused)).await;
    let (mut problem, mut verdict) = (problem, Ok(()));
    if let Some(failure) = outcome.failure {
        let message = failure.problem.message.clone();
        verdict = Err(if failure.transient {
            ReconcileError::Conflict { what: message }
        } else {
            ReconcileError::Unfinished(message)
        });
        // If planning and applying both have a problem, reports the one in the earlier part of the service.
        if problem.as_ref().is_none_or(|known| failure.problem.phase <= known.phase) {
            problem = Some(failure.problem);
        }
    }
    for object in remove.iter().filter(|_| !is_refused) {
        if let Err(error) = remove::one(context, subject, object).await {
            verdict = verdict.and(Err(error));
        }
    }
    Done { children: outcome.children, problem, verdict }
}

/// Deletes the children that have no owner reference, then removes the finalizer.
async fn finalize(
    context: &Context,
    subject: &Subject,
    service: &LLMInferenceService,
) -> Result<(), ReconcileError> {
    if finalizer::has(service, names::SERVICE_FINALIZER) {
        let began = context.index.now();
        let platform = context.platform().unwrap_or_default();
        let snapshot = observe::snapshot(context, &subject.key, platform, Timestamp::now());
        let plan::Finalization { remove, senders, reads } =
            plan::finalization(service, &snapshot).map_err(|error| not_planned(&error))?;
        // In a namespace that is being deleted, no member updates its route any more.
        if !senders.is_empty() && !context.events.ending.contains(subject.key.namespace.as_deref()) {
            // The service depends on the routes of these members, so it is enqueued when they change.
            record_dependencies(context, &subject.key, reads, began);
            return wait_for(context, subject, service, &senders).await;
        }
        for object in remove {
            remove::one(context, subject, &object).await?;
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
    let status = plan::leaving(service, &message, Timestamp::now());
    status::publish(context, subject, service, status).await
}

fn not_planned(error: &plan::PlanError) -> ReconcileError {
    ReconcileError::Unfinished(error.to_string())
}
