//! The steps of one reconcile. Each takes what the step before it returned.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use longboat_api::{
    annotations,
    reasons::condition as reason,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec, LLMInferenceServiceStatus},
};
use longboat_compose::{
    Inputs, Platform, Retry,
    outcome::{AppliedConfigs, Outcome},
    platform::PlatformError,
};
use longboat_key::Key;
use longboat_plan::{self as plan, Applied, Children, ObjectKey, Plan, Problem, Snapshot};
use longboat_store::Moment;
use tracing::Instrument;

use crate::{
    apply,
    context::Context,
    error::ReconcileError,
    events::Subject,
    lookups::Lookups,
    metrics::{Phase, Phases},
    observe, refusal, remove,
    secrets::{self, SecretError},
    spans, status,
};

/// One reconcile of a service.
pub(super) struct Reconcile<'a> {
    context: &'a Context,
    subject: &'a Subject,
    service: &'a LLMInferenceService,
    now: Timestamp,
    phases: Phases<'a>,
    /// The objects that the steps looked up so far, found or not.
    dependencies: BTreeSet<ObjectKey>,
}

/// The objects in the caches at one moment.
pub(super) struct Observation {
    snapshot: Snapshot,
    observed_at: Moment,
    /// Why the platform settings cannot be used. The snapshot has the defaults then.
    platform_error: Option<PlatformError>,
}

/// The result of the step *compose*.
pub(super) struct Composition {
    spec: Option<Box<LLMInferenceServiceSpec>>,
    outcome: Outcome,
    /// The preset names that the service keeps across upgrades of the platform.
    pins: BTreeMap<String, String>,
}

/// The result of the step *apply*.
pub(super) struct ApplyOutcome {
    children: Children<Applied>,
    problem: Option<Problem>,
    /// The first error, because of which the reconcile is retried.
    verdict: Result<(), ReconcileError>,
    /// The caches after the writes.
    observation: Observation,
}

// === impl Composition ===

impl Composition {
    /// The spec to plan: the composed one, or the service's own if a stopped service cannot be composed. Without a spec, the
    /// children stay as they are.
    pub(super) fn spec<'s>(
        &'s self,
        service: &'s LLMInferenceService,
    ) -> Option<&'s LLMInferenceServiceSpec> {
        if self.outcome.stop.is_some() {
            return None;
        }
        Some(self.spec.as_deref().filter(|_| !self.outcome.use_own_spec).unwrap_or(&service.spec))
    }
}

// === impl ApplyOutcome ===

impl ApplyOutcome {
    /// The outcome of a reconcile that ends after the composition.
    pub(super) fn unplanned(composition: &Composition, observation: Observation) -> Self {
        let verdict = match composition.outcome.stop {
            Some(Retry::Backoff) => Err(ReconcileError::Unfinished(composition.outcome.message.clone())),
            _ => Ok(()),
        };
        Self { children: Children::default(), problem: None, verdict, observation }
    }
}

// === impl Reconcile ===

impl<'a> Reconcile<'a> {
    pub(super) fn new(context: &'a Context, subject: &'a Subject, service: &'a LLMInferenceService) -> Self {
        Self {
            context,
            subject,
            service,
            now: Timestamp::now(),
            phases: context.metrics.phases(),
            dependencies: BTreeSet::new(),
        }
    }

    /// Takes a snapshot of the caches.
    pub(super) fn observe(&mut self) -> Observation {
        let _span = spans::phase(Phase::Observe).entered();
        // The moment comes first: a change between the two counts as later than the snapshot, which costs at most a reconcile.
        let observed_at = self.context.index.now();
        let (platform, platform_error) = match self.context.platform() {
            Ok(platform) => (platform, None),
            Err(error) => (Arc::new(Platform::default()), Some(error)),
        };
        let snapshot = observe::snapshot(self.context, &self.subject.key, platform, self.now);
        self.phases.end(Phase::Observe);
        Observation { snapshot, observed_at, platform_error }
    }

    /// Takes the traffic from members of the group that are being deleted. Returns the state afterwards. A failure ends with the
    /// reconcile, so that it does not keep the rest from being done.
    pub(super) async fn prune_route(
        &mut self,
        observation: Observation,
    ) -> (Observation, Result<(), ReconcileError>) {
        let Self { context, subject, service, .. } = *self;
        let pruned = plan::pruned_route(service, &observation.snapshot);
        self.dependencies.extend(observation.snapshot.reads(subject.uid.as_deref()));
        let failed = |error: String| format!("failed to clean up terminating group backends: {error}");
        let route = match pruned {
            Ok(Ok(None)) => return (observation, Ok(())),
            Ok(Ok(Some(route))) => route,
            Ok(Err(error)) => return (observation, Err(ReconcileError::Unfinished(failed(error)))),
            Err(error) => return (observation, Err(error.into())),
        };
        let children = Children { http_routes: vec![route], ..Children::default() };
        let writing = apply::all(context, subject, &observation.snapshot, children, Vec::new(), None);
        let result = match Box::pin(writing).await.failure {
            None => Ok(()),
            Some(failure) => Err(failure.error(failed)),
        };
        // The plan is made of what the caches have after the write.
        (self.observe(), result)
    }

    /// Merges and renders the layers, and checks whether an API server would accept the result.
    pub(super) fn compose(&mut self, observation: &Observation) -> Composition {
        let _span = spans::phase(Phase::Compose).entered();
        let composition = self.merged_layers(observation);
        self.phases.end(Phase::Compose);
        composition
    }

    fn merged_layers(&mut self, observation: &Observation) -> Composition {
        let Self { context, subject, service, .. } = *self;
        let is_stopped = annotations::is_stopped(service.metadata.annotations.as_ref());
        let failed = |outcome| Composition {
            spec: None,
            outcome,
            pins: context.preset_names.pin(service.status.as_ref().map(|status| &status.annotations)),
        };
        if let Some(error) = &observation.platform_error {
            return failed(without_platform(error, is_stopped));
        }
        let lookups = Lookups::new(context, &observation.snapshot);
        let inputs = Inputs {
            service,
            configs: &lookups,
            config_maps: &lookups,
            platform: &observation.snapshot.platform,
            system_namespace: observation.snapshot.system_namespace.as_deref(),
            preset_names: &context.preset_names,
        };
        let composed = context.composer.compose(&inputs);
        let advice = match &composed {
            Ok(effective) if context.has_new_layers(&subject.key, effective) => {
                context.composer.layer_warnings(&inputs, effective)
            }
            _ => Vec::new(),
        };
        self.dependencies.extend(lookups.seen());
        let effective = match composed {
            Ok(effective) => effective,
            Err(error) => {
                if let Some(warning) = error.event() {
                    context.events.warning_once(subject, warning.reason, warning.message);
                }
                return failed(Outcome::of_error(&error, is_stopped));
            }
        };
        for warning in effective.warnings.iter().chain(&advice) {
            context.events.warning_once(subject, warning.reason, warning.message.clone());
        }
        let rejection = context.validator.rejection(&subject.key, &effective.spec);
        Composition {
            outcome: Outcome::of_merged(&effective.applied, rejection.as_ref(), is_stopped),
            spec: Some(effective.spec),
            pins: effective.status_annotations,
        }
    }

    /// Plans the children. Reads the Secrets that planning looks up, and adds them to the observation.
    ///
    /// # Errors
    /// If the service cannot be planned until a retry. What blocks it until something changes is a problem of the plan.
    pub(super) async fn plan(
        &mut self,
        spec: &LLMInferenceServiceSpec,
        observation: &mut Observation,
    ) -> Result<Plan, ReconcileError> {
        let planning = self.plan_with_secrets(spec, &mut observation.snapshot);
        let planned = match planning.instrument(spans::phase(Phase::Plan)).await {
            Ok(planned) => planned,
            Err(SecretError::Denied(problem)) => Plan { problem: Some(problem), ..Plan::default() },
            Err(SecretError::Failed(error)) => return Err(error),
        };
        self.dependencies.extend(planned.reads.iter().cloned());
        // The dependencies are recorded before the writes, so that a change during the writes enqueues the service.
        if self.context.index.add(&self.subject.key, &self.dependencies, observation.observed_at) {
            self.context.services.add(self.subject.key.clone());
        }
        self.phases.end(Phase::Plan);
        Ok(planned)
    }

    async fn plan_with_secrets(
        &self,
        spec: &LLMInferenceServiceSpec,
        snapshot: &mut Snapshot,
    ) -> Result<Plan, SecretError> {
        // Stopping a service needs no Secret.
        if !annotations::is_stopped(self.service.metadata.annotations.as_ref()) {
            secrets::check(self.context, self.subject.key.namespace.as_deref())?;
        }
        loop {
            let planned = plan::children(self.service, spec, snapshot).map_err(ReconcileError::from)?;
            // Planning stops at the first missing Secret. So each iteration reads at least one Secret that exists, and the
            // spec refers to a limited number of them.
            if !secrets::add(self.context, spec, &planned.missed_secrets, snapshot).await? {
                return Ok(planned);
            }
        }
    }

    /// Writes the children that differ, deletes those that are no longer planned, and records the planned events. If the API
    /// server refuses one of them, nothing is written or deleted.
    pub(super) async fn apply(
        &mut self,
        spec: &LLMInferenceServiceSpec,
        planned: Plan,
        observation: Observation,
    ) -> ApplyOutcome {
        let is_removing = !planned.remove.is_empty();
        let writing = self.write(spec, planned, &observation.snapshot);
        let (mut children, problem, verdict) = Box::pin(writing).instrument(spans::phase(Phase::Apply)).await;
        self.phases.end(Phase::Apply);
        // The status describes the state after the writes, including what others have changed during them. The index does not
        // record deletions and failures.
        let is_same = self.context.index.now() == observation.observed_at && !is_removing && verdict.is_ok();
        let observation = if is_same {
            observation
        } else {
            apply::refresh(self.context, &mut children);
            let observed_at = self.context.index.now();
            let platform = observation.snapshot.platform.clone();
            let snapshot = observe::snapshot(self.context, &self.subject.key, platform, self.now);
            Observation { snapshot, observed_at, ..observation }
        };
        ApplyOutcome { children, problem, verdict, observation }
    }

    async fn write(
        &self,
        spec: &LLMInferenceServiceSpec,
        planned: Plan,
        snapshot: &Snapshot,
    ) -> (Children<Applied>, Option<Problem>, Result<(), ReconcileError>) {
        let Self { context, subject, service, .. } = *self;
        let refused = Box::pin(refusal::find(context, service, spec, snapshot, &planned)).await;
        let is_refused = refused.is_some();
        let Plan { children, certificates, remove, events, mut problem, .. } = planned;
        for event in events {
            context.events.warning_once(subject, event.reason, event.message);
        }
        let outcome = Box::pin(apply::all(context, subject, snapshot, children, certificates, refused)).await;
        let mut verdict = Ok(());
        if let Some(failure) = outcome.failure {
            verdict = Err(failure.error(|message| message));
            // If planning and applying both have a problem, reports the one in the earlier part of the service.
            if problem.as_ref().is_none_or(|known| failure.problem.phase <= known.phase) {
                problem = Some(failure.problem);
            }
        }
        for object in remove.iter().filter(|_| !is_refused) {
            if let Err((error, refused)) = remove::child(context, subject, object).await {
                // The next reconcile sees the change of somebody else, and then decides again.
                let is_conflict = matches!(error, ReconcileError::Conflict { .. });
                if !is_conflict && problem.as_ref().is_none_or(|known| refused.phase < known.phase) {
                    problem = Some(refused);
                }
                verdict = verdict.and(Err(error));
            }
        }
        (outcome.children, problem, verdict)
    }

    /// Writes the status, and records what the service depends on. Returns the problem that blocks the service until something
    /// else changes, if there is one.
    ///
    /// # Errors
    /// If the reconcile must be retried.
    pub(super) async fn report(
        mut self,
        composition: Composition,
        outcome: ApplyOutcome,
    ) -> Result<Option<String>, ReconcileError> {
        let Self { context, subject, service, now, .. } = self;
        let ApplyOutcome {
            children,
            problem,
            verdict,
            observation: Observation { snapshot, observed_at, .. },
        } = outcome;
        let spec = composition.spec(service);
        let proof = context.proofs.outcome(&subject.key);
        let download = context.downloads.of(&subject.key);
        let adapters = context.adapters.of(&subject.key).unwrap_or_default();
        let progress = plan::Progress {
            presets: &composition.outcome,
            pins: &composition.pins,
            spec,
            problem: problem.as_ref(),
            proof: proof.as_deref(),
            download: download.as_ref(),
            adapters: &adapters,
        };
        let span = spans::phase(Phase::Report);
        let status = span.in_scope(|| plan::status(service, progress, &children, &snapshot, now))?;
        let failure = failure(&status);
        let due = match spec {
            Some(spec) => plan::proof::next(service, spec, &children, &snapshot, &status),
            None => Ok(None),
        };
        let due = due?;
        self.dependencies.extend(snapshot.reads(subject.uid.as_deref()));
        record_dependencies(context, &subject.key, self.dependencies, observed_at);
        // A conflict is over in a moment: reporting it would make conditions flap.
        if !matches!(verdict, Err(ReconcileError::Conflict { .. })) {
            status::publish(context, subject, service, status).instrument(span).await?;
            context.proofs.published(&subject.key, proof.as_ref(), due);
        }
        self.phases.end(Phase::Report);
        let Outcome { stop, message, .. } = composition.outcome;
        let stopped = stop.is_some().then_some(message);
        verdict.map(|()| stopped.or(problem.map(|problem| problem.message)).or(failure))
    }
}

/// Records the dependencies of a service that were observed at `observed_at`. If one of these objects has changed since, enqueues
/// the service again.
pub(super) fn record_dependencies(
    context: &Context,
    service: &Key,
    dependencies: BTreeSet<ObjectKey>,
    observed_at: Moment,
) {
    if context.index.set(service, dependencies, observed_at) {
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

/// The outcome if the platform settings cannot be used. A change of their ConfigMap enqueues every service.
fn without_platform(error: &PlatformError, is_stopped: bool) -> Outcome {
    let (message, stop) = if is_stopped {
        (format!("Service is stopped with warning: {error}"), None)
    } else {
        (error.to_string(), Some(Retry::OnChange))
    };
    let reason = reason::COMBINE_BASE_ERROR;
    Outcome { reason, message, applied: AppliedConfigs::Keep, stop, use_own_spec: is_stopped }
}
