//! A Deployment's status: counts and conditions.
//!
//! Kubernetes: pkg/controller/deployment/{progress,sync}.go.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::view::{Settings, replicas};

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Returns the status with current counts and a current Available condition.
pub(super) fn counts(
    deployment: &Deployment,
    settings: &Settings,
    new: Option<&ReplicaSet>,
    old: &[ReplicaSet],
    status: &DeploymentStatus,
) -> DeploymentStatus {
    let sum = |count: fn(&ReplicaSet) -> i32| new.into_iter().chain(old).map(count).sum::<i32>();
    let of = |set: &ReplicaSet| set.status.clone().unwrap_or_default();
    let available = sum(|set| set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0));
    let some = |count: i32| (count > 0).then_some(count);
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: some(sum(|set| set.status.as_ref().map_or(0, |status| status.replicas))),
        updated_replicas: some(new.map_or(0, |set| of(set).replicas)),
        ready_replicas: some(sum(|set| {
            set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0)
        })),
        available_replicas: some(available),
        unavailable_replicas: some(sum(replicas) - available),
        ..status.clone()
    };
    let (value, reason, message) = if available >= settings.replicas - settings.max_unavailable {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    set(&mut status, AVAILABLE, value, reason, message.to_owned(), &crate::controllers::writes::now());
    status
}

/// Whether every replica has the current template and is available.
pub(super) fn is_complete(deployment: &Deployment, settings: &Settings, status: &DeploymentStatus) -> bool {
    let wanted = settings.replicas;
    status.updated_replicas.unwrap_or(0) == wanted
        && status.replicas.unwrap_or(0) == wanted
        && status.available_replicas.unwrap_or(0) == wanted
        && status.observed_generation >= deployment.metadata.generation
}

fn get<'s>(status: &'s DeploymentStatus, type_: &str) -> Option<&'s DeploymentCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == type_)
}

/// Sets a condition. A condition with the same status and reason stays unchanged, including its times.
fn set(status: &mut DeploymentStatus, type_: &str, value: &str, reason: &str, message: String, at: &Time) {
    if get(status, type_).is_some_and(|old| old.status == value && old.reason.as_deref() == Some(reason)) {
        return;
    }
    replace(status, type_, value, reason, message, at);
}

/// Sets a condition, with a new update time even if its status and reason stay the same.
fn replace(
    status: &mut DeploymentStatus,
    type_: &str,
    value: &str,
    reason: &str,
    message: String,
    at: &Time,
) {
    let since =
        get(status, type_).filter(|old| old.status == value).and_then(|old| old.last_transition_time.clone());
    let condition = DeploymentCondition {
        type_: type_.to_owned(),
        status: value.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_update_time: Some(at.clone()),
        last_transition_time: Some(since.unwrap_or_else(|| at.clone())),
    };
    let conditions = status.conditions.get_or_insert_default();
    match conditions.iter_mut().find(|old| old.type_ == type_) {
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
}

/// Reports a paused rollout in the Progressing condition: it makes no progress, but this is not a failure.
pub(super) fn pause(status: &mut DeploymentStatus, settings: &Settings, at: &Time) {
    if settings.progress_deadline.is_none() {
        return;
    }
    let reason = get(status, PROGRESSING).and_then(|condition| condition.reason.clone());
    match (settings.paused, reason.as_deref()) {
        (_, Some("ProgressDeadlineExceeded")) | (true, Some("DeploymentPaused")) => {}
        (true, _) => {
            set(status, PROGRESSING, "Unknown", "DeploymentPaused", "Deployment is paused".to_owned(), at);
        }
        (false, Some("DeploymentPaused")) => {
            set(status, PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed".to_owned(), at);
        }
        (false, _) => {}
    }
}

pub(super) fn created(status: &mut DeploymentStatus, settings: &Settings, name: &str, at: &Time) {
    if settings.progress_deadline.is_some() {
        let message = format!("Created new replica set {name:?}");
        set(status, PROGRESSING, "True", "NewReplicaSetCreated", message, at);
    }
}

pub(super) fn found(status: &mut DeploymentStatus, settings: &Settings, name: &str, at: &Time) {
    if settings.progress_deadline.is_some() && get(status, PROGRESSING).is_none() {
        let message = format!("Found new replica set {name:?}");
        set(status, PROGRESSING, "True", "FoundNewReplicaSet", message, at);
    }
}

pub(super) fn create_failed(status: &mut DeploymentStatus, settings: &Settings, message: String, at: &Time) {
    if settings.progress_deadline.is_some() {
        set(status, PROGRESSING, "False", "ReplicaSetCreateError", message, at);
    }
}

/// Updates the Progressing condition from what has changed since `before`.
pub(super) fn progress(
    status: &mut DeploymentStatus,
    before: &DeploymentStatus,
    settings: &Settings,
    complete: bool,
    new: Option<&ReplicaSet>,
    name: &str,
    at: &Time,
) {
    let Some(deadline) = settings.progress_deadline else { return };
    if settings.paused {
        return;
    }
    let what = match new {
        Some(set) => format!("ReplicaSet {:?}", set.name_any()),
        None => format!("Deployment {name:?}"),
    };
    let settled = status.replicas == status.updated_replicas
        && get(status, PROGRESSING)
            .is_some_and(|old| old.reason.as_deref() == Some("NewReplicaSetAvailable"));
    if settled {
        return;
    }
    if complete {
        let message = format!("{what} has successfully progressed.");
        set(status, PROGRESSING, "True", "NewReplicaSetAvailable", message, at);
    } else if has_progressed(before, status) {
        let message = format!("{what} is progressing.");
        replace(status, PROGRESSING, "True", "ReplicaSetUpdated", message, at);
    } else if is_timed_out(status, deadline, at) {
        let message = format!("{what} has timed out progressing.");
        set(status, PROGRESSING, "False", "ProgressDeadlineExceeded", message, at);
    }
}

fn has_progressed(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let updated = |status: &DeploymentStatus| status.updated_replicas.unwrap_or(0);
    let old = |status: &DeploymentStatus| status.replicas.unwrap_or(0) - updated(status);
    updated(after) > updated(before)
        || old(after) < old(before)
        || after.ready_replicas > before.ready_replicas
        || after.available_replicas > before.available_replicas
}

fn is_timed_out(status: &DeploymentStatus, deadline: i32, at: &Time) -> bool {
    let Some(condition) = get(status, PROGRESSING) else { return false };
    match condition.reason.as_deref() {
        Some("NewReplicaSetAvailable") => false,
        Some("ProgressDeadlineExceeded") => true,
        _ => due(condition, deadline).is_some_and(|due| due < at.0),
    }
}

fn due(condition: &DeploymentCondition, deadline: i32) -> Option<jiff::Timestamp> {
    let updated = condition.last_update_time.as_ref()?.0;
    updated.checked_add(SignedDuration::from_secs(i64::from(deadline))).ok()
}

/// Returns the time until the progress deadline must be checked.
pub(super) fn deadline(status: &DeploymentStatus, settings: &Settings, at: &Time) -> Option<Duration> {
    let seconds = settings.progress_deadline.filter(|_| !settings.paused)?;
    let condition = get(status, PROGRESSING)?;
    if matches!(condition.reason.as_deref(), Some("NewReplicaSetAvailable" | "ProgressDeadlineExceeded")) {
        return None;
    }
    let left = due(condition, seconds)?.duration_since(at.0);
    Some(Duration::try_from(left).unwrap_or_default() + Duration::from_secs(1))
}

/// Copies the failure of a ReplicaSet to the status, or removes it once no ReplicaSet fails.
pub(super) fn failure<'s>(
    status: &mut DeploymentStatus,
    mut sets: impl Iterator<Item = &'s ReplicaSet>,
    at: &Time,
) {
    let failure = sets.find_map(|set| {
        set.status.as_ref()?.conditions.as_ref()?.iter().find(|one| one.type_ == REPLICA_FAILURE)
    });
    match failure {
        Some(failure) => {
            let reason = failure.reason.clone().unwrap_or_default();
            set(
                status,
                REPLICA_FAILURE,
                &failure.status,
                &reason,
                failure.message.clone().unwrap_or_default(),
                at,
            );
        }
        None => {
            if let Some(conditions) = &mut status.conditions {
                conditions.retain(|condition| condition.type_ != REPLICA_FAILURE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings() -> Settings {
        Settings {
            replicas: 2,
            recreate: false,
            max_surge: 1,
            max_unavailable: 0,
            progress_deadline: Some(600),
            paused: false,
        }
    }

    fn at(seconds: i64) -> Time {
        Time(jiff::Timestamp::from_second(seconds).unwrap())
    }

    fn replica_set(replicas: i32, available: i32) -> ReplicaSet {
        serde_json::from_value(
            json!({"metadata": {"name": "d-1"}, "spec": {"replicas": replicas, "selector": {}},
            "status": {"replicas": replicas, "readyReplicas": available, "availableReplicas": available}}),
        )
        .unwrap()
    }

    fn reason(status: &DeploymentStatus) -> &str {
        get(status, PROGRESSING).and_then(|condition| condition.reason.as_deref()).unwrap()
    }

    fn pass(before: &DeploymentStatus, set: &ReplicaSet, now: i64) -> DeploymentStatus {
        let deployment = Deployment::default();
        let mut status = counts(&deployment, &settings(), Some(set), &[], before);
        let complete = is_complete(&deployment, &settings(), &status);
        progress(&mut status, before, &settings(), complete, Some(set), "d", &at(now));
        status
    }

    #[test]
    fn a_rollout_progresses_to_its_end() {
        let mut first = DeploymentStatus::default();
        created(&mut first, &settings(), "d-1", &at(0));
        let second = pass(&first, &replica_set(2, 1), 10);
        assert_eq!(reason(&second), "ReplicaSetUpdated");
        assert_eq!(get(&second, AVAILABLE).unwrap().status, "False");
        assert_eq!((second.unavailable_replicas, second.available_replicas), (Some(1), Some(1)));
        let third = pass(&second, &replica_set(2, 2), 20);
        assert_eq!(reason(&third), "NewReplicaSetAvailable");
        assert_eq!(get(&third, AVAILABLE).unwrap().status, "True");
        assert_eq!(pass(&third, &replica_set(2, 2), 5000), third, "a finished rollout is written once");
        assert_eq!(deadline(&third, &settings(), &at(20)), None);
    }

    #[test]
    fn a_rollout_without_progress_times_out() {
        let mut first = DeploymentStatus::default();
        created(&mut first, &settings(), "d-1", &at(0));
        let second = pass(&first, &replica_set(2, 0), 10);
        assert_eq!(deadline(&second, &settings(), &at(10)), Some(Duration::from_secs(601)));
        assert_eq!(reason(&pass(&second, &replica_set(2, 0), 610)), "ReplicaSetUpdated");
        let third = pass(&second, &replica_set(2, 0), 611);
        assert_eq!(reason(&third), "ProgressDeadlineExceeded");
        assert_eq!(get(&third, PROGRESSING).unwrap().status, "False");
    }

    #[test]
    fn pausing_and_resuming_show() {
        let mut status = DeploymentStatus::default();
        pause(&mut status, &Settings { paused: true, ..settings() }, &at(0));
        assert_eq!(reason(&status), "DeploymentPaused");
        pause(&mut status, &settings(), &at(5));
        assert_eq!(reason(&status), "DeploymentResumed");
    }

    #[test]
    fn a_failure_comes_and_goes_with_its_set() {
        let mut failing = replica_set(2, 0);
        failing.status.as_mut().unwrap().conditions = serde_json::from_value(
            json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "no"}]),
        )
        .unwrap();
        let mut status = DeploymentStatus::default();
        failure(&mut status, std::iter::once(&failing), &at(0));
        assert_eq!(get(&status, REPLICA_FAILURE).unwrap().message.as_deref(), Some("no"));
        failure(&mut status, std::iter::once(&replica_set(2, 0)), &at(1));
        assert!(get(&status, REPLICA_FAILURE).is_none());
    }
}
