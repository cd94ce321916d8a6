//! What is reported about a service, from what was read back (contract/01 §10, §11; contract/03 §7, §8).

mod addresses;
mod gateways;
mod image_volume;
mod pool;
mod references;
mod routes;
mod scheduler;
mod stopped;
mod workload;

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use longboat_api::{
    conditions::{ConditionStatus, Conditions, ROUTER, SERVICE, WORKLOADS, groom, types},
    reasons::condition::{NEW_OBSERVED_GENERATION_FAILURE, STOPPED},
    v1alpha2::{AppliedConfig, LLMInferenceService, LLMInferenceServiceSpec, LLMInferenceServiceStatus},
};

use crate::{
    children::{Applied, Children},
    context::Context,
    problem::{Phase, PlanError, Problem},
    snapshot::Snapshot,
};

/// How far one pass over a service got.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// The layers did not compose, or the result was refused: nothing was planned.
    NotComposed {
        /// False, or Unknown where it could not be checked.
        status: ConditionStatus,
        /// Reason of `PresetsCombined`.
        reason: &'a str,
        /// Its message.
        message: &'a str,
        /// The configs that were merged, where merging is not what failed.
        applied_configs: &'a [AppliedConfig],
    },
    /// The service is stopped, and so it does not matter that it does not compose.
    StoppedUncomposed {
        /// Why it does not compose.
        warning: &'a str,
    },
    /// The service was planned, and applied as far as possible.
    Planned {
        /// The composed spec.
        spec: &'a LLMInferenceServiceSpec,
        /// The configs that were merged, lowest precedence first.
        applied_configs: &'a [AppliedConfig],
        /// What planning or applying stopped at.
        problem: Option<&'a Problem>,
    },
}

/// The status to report. The shell writes it if it differs from the stored one.
///
/// `pins` are the preset names that the service keeps across upgrades of the platform, for `status.annotations`.
/// Conditions that say what they said before keep their time; all others get `now`.
///
/// # Errors
/// When the service was never stored.
pub fn status(
    service: &LLMInferenceService,
    pins: &BTreeMap<String, String>,
    outcome: Outcome,
    applied: &Children<Applied>,
    snapshot: &Snapshot,
    now: Timestamp,
) -> Result<LLMInferenceServiceStatus, PlanError> {
    let before = service.status.clone().unwrap_or_default();
    let mut status = before.clone();
    status.annotations.extend(pins.clone());
    let mut list = std::mem::take(&mut status.conditions);
    let mut conditions = Conditions::new(SERVICE, &mut list, now);
    conditions.initialize();
    let generation = service.metadata.generation.unwrap_or_default();
    if status.observed_generation != generation {
        let message = "unsuccessfully observed a new generation";
        conditions.mark_unknown(types::READY, NEW_OBSERVED_GENERATION_FAILURE, message);
    }

    let context = |spec| Context::new(service, spec, snapshot);
    match outcome {
        Outcome::NotComposed { status: verdict, reason, message, applied_configs } => {
            status.applied_configs = applied_configs.to_vec();
            if verdict == ConditionStatus::Unknown {
                conditions.mark_unknown(types::PRESETS_COMBINED, reason, message);
            } else {
                conditions.mark_false(types::PRESETS_COMBINED, reason, message);
            }
        }
        Outcome::StoppedUncomposed { warning } => {
            let message = format!("Service is stopped with warning: {warning}");
            conditions.mark_false(types::PRESETS_COMBINED, STOPPED, &message);
            stopped::report(&mut status, &mut conditions);
        }
        Outcome::Planned { spec, applied_configs, problem } => {
            let context = context(spec)?;
            status.applied_configs = applied_configs.to_vec();
            conditions.mark_true(types::PRESETS_COMBINED);
            image_volume::report(&context, &mut conditions);
            if context.stopped() {
                stopped::report(&mut status, &mut conditions);
                if let Some(problem) = problem {
                    conditions.mark_false(problem.condition, problem.reason, &problem.message);
                }
            } else {
                let world = World { context, applied };
                report(&world, problem, &mut status, &mut conditions);
            }
        }
    }
    status.conditions = list;
    status.observed_generation = generation;
    groom(&mut status.conditions, &before.conditions, now);
    Ok(status)
}

/// The service and what was read back of it.
pub(crate) struct World<'a> {
    pub(crate) context: Context<'a>,
    pub(crate) applied: &'a Children<Applied>,
}

fn report(world: &World, problem: Option<&Problem>, status: &mut LLMInferenceServiceStatus, conditions: &mut Conditions) {
    workload::report(world, conditions);
    if let Some(problem) = problem.filter(|problem| problem.phase == Phase::Workload) {
        conditions.mark_false(problem.condition, problem.reason, &problem.message);
        WORKLOADS.apply(conditions);
        return;
    }
    WORKLOADS.apply(conditions);

    let complete = match problem {
        None => router(world, status, conditions),
        Some(problem) => {
            gateways::forget(world, conditions);
            routes::forget(world, conditions);
            scheduler::forget(world, conditions);
            conditions.mark_false(problem.condition, problem.reason, &problem.message);
            false
        }
    };
    ROUTER.apply(conditions);
    if complete {
        references::workloads(world, status);
    }
}

/// Reports everything about the router; false where something could not be looked at.
fn router(world: &World, status: &mut LLMInferenceServiceStatus, conditions: &mut Conditions) -> bool {
    scheduler::report(world, conditions);
    let routes = routes::in_play(world);
    if let Err(error) = addresses::report(world, &routes, status) {
        let problem = Problem::route(error);
        gateways::forget(world, conditions);
        conditions.mark_false(problem.condition, problem.reason, &problem.message);
        return false;
    }
    let gateways = crate::router::gateway::of_routes(&world.context, &routes);
    references::router(world, &routes, status);
    let pool_known = pool::report(world, &gateways, status, conditions);
    if pool_known {
        gateways::report(world, &gateways, conditions);
        routes::report(world, &routes, conditions);
    }
    pool_known
}
