//! The status of a service, computed from what the server returned.

mod adapters;
mod addresses;
pub(crate) mod context;
mod download;
mod gateways;
mod group;
mod image_volume;
mod pairing;
mod pool;
mod references;
pub(crate) mod rollout;
mod routes;
mod scaling;
mod scheduler;
mod stopped;
pub(crate) mod workload;

use self::context::StatusContext;
pub use self::{adapters::PodAdapters, download::Download};

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use longboat_api::{
    annotations::ACCELERATOR_TYPE,
    conditions::{Conditions, SERVICE, set_transition_times, types},
    reasons::condition::{FINALIZATION_PENDING, NEW_OBSERVED_GENERATION_FAILURE},
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec, LLMInferenceServiceStatus},
};

use longboat_compose::outcome as compose;

use crate::{
    accelerator::accelerator_type,
    children::{Applied, Children},
    context::Context,
    plan::check_readable,
    problem::{Phase, PlanError, Problem},
    proof, router,
    snapshot::Snapshot,
};

/// The outcome of one reconcile of a service.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The outcome of composing and of checking the result.
    pub presets: &'a compose::Outcome,
    /// The preset names that the service keeps across upgrades of the platform, for `status.annotations`.
    pub pins: &'a BTreeMap<String, String>,
    /// The spec that was planned, or `None` if composition failed.
    pub spec: Option<&'a LLMInferenceServiceSpec>,
    /// The problem at which planning or applying stopped.
    pub problem: Option<&'a Problem>,
    /// The outcome of a proof request since the status was last written.
    pub proof: Option<&'a proof::Outcome>,
    /// The progress of the model's download, while one runs.
    pub download: Option<&'a Download>,
    /// What the pods say about adapters that are loaded while they run.
    pub adapters: &'a [PodAdapters],
}

/// Computes the status to report. The controller writes it if it differs from the stored one.
///
/// A condition that did not change keeps its time; all others get `now`.
///
/// # Errors
/// If the service was never stored, or an object that was looked up cannot be decoded.
pub fn status(
    service: &LLMInferenceService,
    progress: Progress,
    applied: &Children<Applied>,
    snapshot: &Snapshot,
    now: Timestamp,
) -> Result<LLMInferenceServiceStatus, PlanError> {
    let before = service.status.clone().unwrap_or_default();
    let mut status = before.clone();
    status.annotations.extend(progress.pins.clone());
    if let Some(spec) = progress.spec {
        status.annotations.insert(ACCELERATOR_TYPE.to_owned(), accelerator_type(spec).to_owned());
    }
    let mut list = std::mem::take(&mut status.conditions);
    let context = progress.spec.map(|spec| Context::new(service, spec, snapshot)).transpose()?;
    let mut conditions = Conditions::new(proof::dependents(context.as_ref()), &mut list, now);
    conditions.initialize();
    if let Some(context) = &context {
        proof::prepare(context, &mut status, &mut conditions);
        pairing::prepare(context, &mut conditions);
    }
    let generation = service.metadata.generation.unwrap_or_default();
    if status.observed_generation != generation {
        let message = "unsuccessfully observed a new generation";
        conditions.mark_unknown(types::READY, NEW_OBSERVED_GENERATION_FAILURE, message);
    }

    presets(progress.presets, &mut status, &mut conditions);
    download::report(progress.download, &mut conditions);
    if let Some(context) = context {
        image_volume::report(&context, &mut conditions);
        if context.stopped() {
            stopped::report(&mut status, &mut conditions);
        } else {
            let reconciled = StatusContext { context, applied };
            report(&reconciled, progress.problem, &mut status, &mut conditions);
            pairing::report(&reconciled, &mut conditions);
            adapters::report(&reconciled.context, progress.adapters, &mut conditions);
            proof::report(&reconciled, progress.proof, &mut status, &mut conditions);
        }
    }
    // With the raw spec: members that leave wait for this, also while the service cannot be composed.
    router::leaving::forget(&Context::new(service, &service.spec, snapshot)?, &mut status);
    check_readable(snapshot)?;
    status.conditions = list;
    status.observed_generation = generation;
    set_transition_times(&mut status.conditions, &before.conditions, now);
    Ok(status)
}

fn presets(outcome: &compose::Outcome, status: &mut LLMInferenceServiceStatus, conditions: &mut Conditions) {
    let problem = (!outcome.reason.is_empty()).then_some((outcome.reason, &outcome.message));
    conditions.mark(types::PRESETS_COMBINED, problem);
    match &outcome.applied {
        compose::AppliedConfigs::Keep => {}
        compose::AppliedConfigs::Clear => status.applied_configs.clear(),
        compose::AppliedConfigs::Set(configs) => status.applied_configs.clone_from(configs),
    }
}

/// The status of a service that is being deleted and has to wait, because members of its group still send traffic to it.
pub fn deletion_status(
    service: &LLMInferenceService,
    message: &str,
    now: Timestamp,
) -> LLMInferenceServiceStatus {
    let mut status = service.status.clone().unwrap_or_default();
    let before = status.conditions.clone();
    Conditions::new(SERVICE, &mut status.conditions, now).mark_false(
        types::GROUP_READY,
        FINALIZATION_PENDING,
        message,
    );
    set_transition_times(&mut status.conditions, &before, now);
    status
}

fn report(
    reconciled: &StatusContext,
    problem: Option<&Problem>,
    status: &mut LLMInferenceServiceStatus,
    conditions: &mut Conditions,
) {
    addresses::forget_unserved(reconciled, status);
    workload::report(reconciled, conditions);
    scaling::report(reconciled, conditions);
    if let Some(problem) = problem.filter(|problem| problem.phase == Phase::Workload) {
        conditions.mark_false(problem.condition, problem.reason, &problem.message);
        conditions.roll_up(types::WORKLOADS_READY);
        return;
    }
    conditions.roll_up(types::WORKLOADS_READY);

    // A reference that was there when the service was planned may be gone in the snapshot after the writes.
    let dangling = problem.is_none().then(|| router::references::check(&reconciled.context).err()).flatten();
    let complete = match problem.or(dangling.as_ref()) {
        None => router(reconciled, status, conditions),
        Some(problem) => {
            // This reconcile knows nothing about the Gateways.
            conditions.clear(types::GATEWAYS_READY);
            routes::forget(reconciled, conditions);
            scheduler::keep_condition(reconciled, conditions);
            pool::keep_condition(reconciled, conditions);
            conditions.mark_false(problem.condition, problem.reason, &problem.message);
            false
        }
    };
    conditions.roll_up(types::ROUTER_READY);
    if complete {
        references::workloads(reconciled, status);
    }
}

/// Reports everything about the router. Returns false if an object could not be read.
fn router(
    reconciled: &StatusContext,
    status: &mut LLMInferenceServiceStatus,
    conditions: &mut Conditions,
) -> bool {
    scheduler::report(reconciled, conditions);
    let routes = router::route::in_play(&reconciled.context, reconciled.applied);
    if let Err(error) = addresses::report(reconciled, &routes, status) {
        let problem = Problem::route(error);
        conditions.clear(types::GATEWAYS_READY);
        conditions.mark_false(problem.condition, problem.reason, &problem.message);
        return false;
    }
    let gateways = crate::router::gateway::of_routes(&reconciled.context, &routes);
    references::router(reconciled, &routes, status);
    group::report(reconciled, status, conditions);
    let pool_known = pool::report(reconciled, &gateways, status, conditions);
    if pool_known {
        gateways::report(reconciled, &gateways, conditions);
        routes::report(reconciled, &routes, conditions);
    }
    pool_known
}
