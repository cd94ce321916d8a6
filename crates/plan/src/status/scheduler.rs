//! Whether the picker picks (contract/03 §8.3).

use k8s_openapi::api::apps::v1::Deployment;
use longboat_api::{
    conditions::{Conditions, types},
    reasons::condition::{PROGRESS_DEADLINE_EXCEEDED, PROGRESSING},
};

use super::World;
use crate::{names, scheduler::tokenizer};

/// One available picker is enough, and one tokenizer.
pub(super) fn report(world: &World, conditions: &mut Conditions) {
    let context = &world.context;
    let tokenizer = tokenizer::is_wanted(context).then(|| names::tokenizer(context.name));
    let picker = context.managed_scheduler().map(|_| names::scheduler(context.name));
    for (type_, name) in [(types::TOKENIZER_READY, tokenizer), (types::SCHEDULER_WORKLOAD_READY, picker)] {
        let Some(name) = name else {
            conditions.clear(type_);
            continue;
        };
        let verdict = match world.applied.deployment(&name) {
            Some(deployment) => objection(deployment),
            None => Some((PROGRESSING.into(), "Deployment rollout in progress".into())),
        };
        match verdict {
            None => conditions.mark_true(type_),
            Some((reason, message)) => conditions.mark_false(type_, &reason, &message),
        }
    }
}

/// While something else keeps the scheduler from being looked at, only what cannot hold any more goes.
pub(super) fn forget(world: &World, conditions: &mut Conditions) {
    if !tokenizer::is_wanted(&world.context) {
        conditions.clear(types::TOKENIZER_READY);
    }
    if world.context.managed_scheduler().is_none() {
        conditions.clear(types::SCHEDULER_WORKLOAD_READY);
    }
    if world.context.scheduler().is_none() {
        conditions.clear(types::INFERENCE_POOL_READY);
    }
}

fn objection(deployment: &Deployment) -> Option<(String, String)> {
    let status = deployment.status.as_ref();
    if status.and_then(|status| status.available_replicas).is_some_and(|available| available > 0) {
        return None;
    }
    let conditions = || status.into_iter().flat_map(|status| status.conditions.iter().flatten());
    let overdue = conditions().find(|condition| {
        condition.type_ == "Progressing"
            && condition.status == "False"
            && condition.reason.as_deref() == Some(PROGRESS_DEADLINE_EXCEEDED)
    });
    let decisive = overdue.or_else(|| conditions().find(|condition| condition.type_ == "Available"));
    match decisive {
        Some(condition) if condition.type_ == "Available" && condition.status == "True" => None,
        Some(condition) => Some((
            condition.reason.clone().unwrap_or_default(),
            condition.message.clone().unwrap_or_default(),
        )),
        None => Some((PROGRESSING.into(), "Deployment rollout in progress".into())),
    }
}
