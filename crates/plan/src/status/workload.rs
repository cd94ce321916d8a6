//! Reports whether the model server serves.

use k8s_openapi::api::apps::v1::Deployment;
use longboat_api::{
    conditions::{Conditions, types},
    foreign::leaderworkerset::LeaderWorkerSet,
    reasons::condition::PROGRESSING,
};

use super::Reconciled;
use crate::workload::Half;

/// Reports the Deployments and LeaderWorkerSets. Clears the conditions of other topologies.
pub(super) fn report(reconciled: &Reconciled, conditions: &mut Conditions) {
    let context = &reconciled.context;
    let present: Vec<&str> = Half::all(context.spec).map(|half| half.condition()).collect();
    let all = [
        types::MAIN_WORKLOAD_READY,
        types::PREFILL_WORKLOAD_READY,
        types::WORKER_WORKLOAD_READY,
        types::PREFILL_WORKER_WORKLOAD_READY,
    ];
    for type_ in all.into_iter().filter(|type_| !present.contains(type_)) {
        conditions.clear(type_);
    }
    for half in Half::all(context.spec) {
        let verdict = if half.is_group() {
            reconciled.applied.leader_worker_set(&half.group_name(context.name)).map(group_objection)
        } else {
            reconciled.applied.deployment(&half.deployment_name(context.name)).map(objection)
        };
        match verdict {
            // Not written; the problem has set the condition.
            None => {}
            Some(None) => conditions.mark_true(half.condition()),
            Some(Some((reason, message))) => conditions.mark_false(half.condition(), &reason, &message),
        }
    }
}

/// Whether the LeaderWorkerSet serves.
pub(crate) fn is_group_available(set: &LeaderWorkerSet) -> bool {
    group_objection(set).is_none()
}

/// Whether the Deployment serves.
pub(crate) fn is_available(deployment: &Deployment) -> bool {
    objection(deployment).is_none()
}

/// Returns why the LeaderWorkerSet does not serve.
fn group_objection(set: &LeaderWorkerSet) -> Option<(String, String)> {
    let conditions = set.status.iter().flat_map(|status| &status.conditions);
    match conditions.into_iter().find(|condition| condition.type_ == "Available") {
        None => Some((PROGRESSING.to_owned(), "LWS is progressing".to_owned())),
        Some(available) if available.status == "True" => None,
        Some(available) => Some((available.reason.clone(), available.message.clone())),
    }
}

/// Returns why the Deployment does not serve, in the words of its conditions. `Available` decides; until it is reported, a
/// stopped rollout gives the reason.
fn objection(deployment: &Deployment) -> Option<(String, String)> {
    let mut objection = (PROGRESSING.to_owned(), String::new());
    for condition in deployment.status.iter().flat_map(|status| status.conditions.iter().flatten()) {
        let words = || {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            (text(&condition.reason), text(&condition.message))
        };
        match (condition.type_.as_str(), condition.status.as_str()) {
            ("Available", "True") => return None,
            ("Available", _) => return Some(words()),
            ("Progressing", "False") => objection = words(),
            _ => {}
        }
    }
    Some(objection)
}
