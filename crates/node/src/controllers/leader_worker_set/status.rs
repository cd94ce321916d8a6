//! The status of a LeaderWorkerSet. Pure functions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt;
use longboat_api::foreign::leaderworkerset::{LeaderWorkerSet, LeaderWorkerSetStatus};

use super::group::{Group, Settings};
use super::labels::{NAME, WORKER_INDEX};

/// Computes the status from the groups.
pub(super) fn of(
    set: &LeaderWorkerSet,
    settings: &Settings,
    groups: &[Group],
    before: &LeaderWorkerSetStatus,
    now: &Time,
) -> LeaderWorkerSetStatus {
    let count = |holds: &dyn Fn(&Group) -> bool| {
        i32::try_from(groups.iter().filter(|group| holds(group)).count()).unwrap_or(i32::MAX)
    };
    let ready = count(&|group| group.is_ready(settings));
    let updated = count(&|group| group.is_current(settings));
    let is_available = ready == settings.replicas && updated == settings.replicas;
    let was = |type_: &str| before.conditions.iter().find(|condition| condition.type_ == type_);
    let condition = |type_: &str, holds: bool, reason: &str, message: &str| {
        let status = if holds { "True" } else { "False" };
        let since = was(type_).filter(|was| was.status == status).map(|was| was.last_transition_time.clone());
        Condition {
            type_: type_.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            observed_generation: None,
            last_transition_time: since.unwrap_or_else(|| now.clone()),
        }
    };
    let (reason, message) = if is_available {
        ("AllGroupsReady", "All replicas are ready".to_owned())
    } else {
        ("GroupsProgressing", format!("{ready} of {} groups are ready", settings.replicas))
    };
    let mut conditions = vec![
        condition("Available", is_available, reason, &message),
        condition("Progressing", !is_available, reason, &message),
    ];
    let is_updating = updated < count(&|group| group.leader.is_some());
    if is_updating || was("UpdateInProgress").is_some() {
        let (reason, message) = if is_updating {
            ("GroupsUpdating", "Rolling Upgrade is in progress")
        } else {
            ("AllGroupsReady", "All groups are of the newest revision")
        };
        conditions.push(condition("UpdateInProgress", is_updating, reason, message));
    }
    LeaderWorkerSetStatus {
        conditions,
        ready_replicas: Some(ready),
        updated_replicas: Some(updated),
        replicas: Some(count(&|group| group.leader.is_some())),
        hpa_pod_selector: Some(format!("{NAME}={},{WORKER_INDEX}=0", set.name_any())),
    }
}
