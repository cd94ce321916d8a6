//! What the conditions of a service say to a person. Pure functions.

use longboat_api::{
    conditions::{Condition, ConditionStatus, types},
    v1alpha2::LLMInferenceService,
};

use super::{Environment, Mark};

/// Conditions in the order of their dependencies. Other conditions follow.
const ORDER: [&str; 7] = [
    types::PRESETS_COMBINED,
    types::MODEL_FETCHED,
    types::MAIN_WORKLOAD_READY,
    types::SCHEDULER_WORKLOAD_READY,
    types::GATEWAYS_READY,
    types::HTTP_ROUTES_READY,
    types::INFERENCE_POOL_READY,
];

/// The conditions that are False whenever one is that a laptop cannot meet.
const ROLL_UPS: [&str; 2] = [types::READY, types::WORKLOADS_READY];

/// Conditions that summarize other conditions.
const SUMS: [&str; 3] = [types::READY, types::WORKLOADS_READY, types::ROUTER_READY];

/// Returns the conditions that report a problem, in the order of their dependencies, each reason once.
pub(super) fn causes(service: &LLMInferenceService, environment: Environment) -> Vec<&Condition> {
    let conditions = service.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let is_bad = |condition: &&Condition| {
        // GroupDegraded is no problem while it is false.
        let is_untrue = !condition.is_true() && condition.type_ != types::GROUP_DEGRADED;
        is_untrue || condition.is_true_and_needs_action()
    };
    let mut bad: Vec<_> = conditions.iter().filter(is_bad).collect();
    if is_ready(service) || (environment == Environment::Laptop && serves(service)) {
        bad.retain(|condition| !SUMS.contains(&condition.type_.as_str()));
    }
    bad.sort_by_key(|condition| {
        let type_ = condition.type_.as_str();
        let rank = ORDER.iter().position(|known| *known == type_).unwrap_or(ORDER.len());
        // Sums repeat what others say better. Unknown conditions come after false ones.
        (SUMS.contains(&type_), condition.status == ConditionStatus::Unknown, rank, type_)
    });
    let mut shown: Vec<&Condition> = Vec::new();
    for condition in bad {
        let is_sum = SUMS.contains(&condition.type_.as_str());
        let repeats =
            |known: &&Condition| is_sum || known.message == condition.message && !known.message.is_empty();
        if !shown.iter().any(repeats) && condition.type_ != types::READY {
            shown.push(condition);
        }
    }
    shown
}

/// Whether a service is ready, for its latest generation.
pub(crate) fn is_ready(service: &LLMInferenceService) -> bool {
    service.status.as_ref().is_some_and(|status| {
        Some(status.observed_generation) == service.metadata.generation
            && status.conditions.iter().any(|found| found.type_ == types::READY && found.is_true())
    })
}

/// Whether a service serves as far as it can on this machine: it is ready, except for what a laptop lacks.
pub(crate) fn serves(service: &LLMInferenceService) -> bool {
    if is_ready(service) {
        return true;
    }
    service.status.as_ref().is_some_and(|status| {
        // Other pods of the service may serve while one pod downloads the model.
        let counts = |found: &&Condition| !found.is_true() && found.type_ != types::MODEL_FETCHED;
        let missing = || status.conditions.iter().filter(counts);
        Some(status.observed_generation) == service.metadata.generation
            && missing().any(Condition::is_beyond_a_laptop)
            && missing().all(|found| found.is_beyond_a_laptop() || ROLL_UPS.contains(&found.type_.as_str()))
    })
}

/// Formats a condition in one line: `MainWorkloadReady=False Progressing: …`.
pub(super) fn step(condition: &Condition) -> String {
    let status = condition.status.as_str();
    format!("{}={status} {}", condition.type_, reason_and_message(condition)).trim_end().to_owned()
}

/// Returns the reason and the message of a condition.
pub(super) fn reason_and_message(condition: &Condition) -> String {
    let parts = [condition.reason.as_str(), condition.message.as_str()];
    parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(": ")
}

/// Returns the mark of a condition.
pub(super) fn mark(condition: &Condition) -> Mark {
    match condition.status {
        ConditionStatus::True if condition.is_true_and_needs_action() => Mark::Bad,
        ConditionStatus::True => Mark::Good,
        // These conditions need the user's action; others may resolve by themselves.
        ConditionStatus::False if condition.type_ == types::PRESETS_COMBINED => Mark::Bad,
        ConditionStatus::False if condition.reason.ends_with("Error") => Mark::Bad,
        ConditionStatus::False | ConditionStatus::Unknown => Mark::Waiting,
    }
}

/// Returns the mark of a service that is not ready: bad if one of its conditions is bad.
pub(super) fn worst(conditions: &[Condition]) -> Mark {
    if conditions.iter().any(|condition| mark(condition) == Mark::Bad) { Mark::Bad } else { Mark::Waiting }
}
