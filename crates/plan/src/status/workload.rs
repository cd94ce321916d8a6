//! Reports whether the model server serves.

use std::collections::BTreeMap;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use longboat_api::{
    conditions::{Conditions, types},
    foreign::leaderworkerset::LeaderWorkerSet,
    labels,
    reasons::condition::{PODS_DRAIN, PROGRESSING},
};

use super::context::StatusContext;
use crate::{context::Context, pods, workload::Half};

/// Reports the Deployments and LeaderWorkerSets. Clears the conditions of other topologies.
pub(super) fn report(reconciled: &StatusContext, conditions: &mut Conditions) {
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
            let name = half.group_name(context.name);
            reconciled.applied.leader_worker_set(&name).map(|set| {
                let labels = BTreeMap::from([(pods::SET_NAME.to_owned(), name)]);
                match group_objection(set) {
                    Some((reason, message)) => Err((reason, of_pods(context, &labels).unwrap_or(message))),
                    None => Ok(ending(context, &labels)),
                }
            })
        } else {
            reconciled.applied.deployment(&half.deployment_name(context.name)).map(|deployment| {
                match objection(deployment) {
                    Some((reason, message)) => {
                        Err((reason, first_cause(context, deployment).unwrap_or(message)))
                    }
                    None => Ok(selector(deployment).map_or(0, |labels| ending(context, labels))),
                }
            })
        };
        match verdict {
            // Not written; the problem has set the condition.
            None => {}
            Some(Ok(0)) => conditions.mark_true(half.condition()),
            Some(Ok(count)) => {
                let ends = if count == 1 { "1 pod ends".to_owned() } else { format!("{count} pods end") };
                let message = format!(
                    "{ends}: no new requests, running ones may finish until the grace period is over"
                );
                conditions.mark_true_with_reason(half.condition(), PODS_DRAIN, &message);
            }
            Some(Err((reason, message))) => conditions.mark_false(half.condition(), &reason, &message),
        }
    }
}

/// Returns why a Deployment does not serve, if it or its pods tell. Its own conditions only say that it does not.
pub(super) fn first_cause(context: &Context, deployment: &Deployment) -> Option<String> {
    if let Some(refusal) = pods::refusal(deployment).filter(|refusal| !refusal.is_empty()) {
        return Some(refusal.to_owned());
    }
    of_pods(context, selector(deployment)?)
}

fn selector(deployment: &Deployment) -> Option<&BTreeMap<String, String>> {
    deployment.spec.as_ref()?.selector.match_labels.as_ref()
}

/// Returns the first failure of the service's pods with these labels.
fn of_pods(context: &Context, labels: &BTreeMap<String, String>) -> Option<String> {
    let (pod, failure) = pods::first(own_pods(context, labels))?;
    Some(failure.sentence(pod))
}

/// Returns how many of the service's pods with these labels are being terminated.
fn ending(context: &Context, labels: &BTreeMap<String, String>) -> usize {
    own_pods(context, labels).filter(|pod| pod.metadata.deletion_timestamp.is_some()).count()
}

/// Returns the service's pods with these labels.
fn own_pods<'a>(context: &'a Context, labels: &'a BTreeMap<String, String>) -> impl Iterator<Item = &'a Pod> {
    // Pods enqueue the service that their labels name, so only those may decide.
    let all = context.snapshot.pods.in_namespace(context.namespace);
    let all = all.filter(|pod| labels::are_of(&pod.metadata, context.name));
    pods::selected(all, context.namespace, labels)
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
