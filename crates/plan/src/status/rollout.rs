//! What is missing until all pods have the newest revision and serve.

use k8s_openapi::api::apps::v1::Deployment;
use longboat_api::foreign::leaderworkerset::LeaderWorkerSet;

use crate::{
    children::{Applied, Children},
    context::Context,
    workload::half::Half,
};

/// Returns what is missing for a half, and how many replicas are wanted. Returns `None` if the half does not exist.
pub(crate) fn of_half(
    context: &Context,
    applied: &Children<Applied>,
    half: &Half,
) -> Option<(Option<String>, i32)> {
    if half.is_group() {
        let set = applied.leader_worker_set(&half.group_name(context.name))?;
        return Some((of_group(set), set.spec.replicas.unwrap_or(1)));
    }
    let deployment = applied.deployment(&half.deployment_name(context.name))?;
    Some((of_deployment(deployment), wanted_replicas(deployment)))
}

/// The replicas that a Deployment should have.
pub(crate) fn wanted_replicas(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// Returns what is missing until all pods of a Deployment have its newest revision and serve.
pub(crate) fn of_deployment(deployment: &Deployment) -> Option<String> {
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let replicas = wanted_replicas(deployment);
    let status = deployment.status.clone().unwrap_or_default();
    // Until then, the numbers are those of the former revision.
    if status.observed_generation < deployment.metadata.generation {
        return Some(format!("Deployment {name} has not started the rollout of the newest revision"));
    }
    let updated = status.updated_replicas.unwrap_or_default();
    let available = status.available_replicas.unwrap_or_default();
    let old = (status.replicas.unwrap_or_default() - updated).max(0);
    if updated >= replicas && available >= replicas && old == 0 {
        return None;
    }
    let older = if old > 0 { format!(", and {old} of an older one") } else { String::new() };
    Some(format!(
        "Deployment {name} has {} of {replicas} pods of the newest revision, {} of {replicas} available{older}",
        updated.min(replicas),
        available.min(replicas)
    ))
}

/// Like [`of_deployment`], for a LeaderWorkerSet, whose status does not say which generation it describes.
fn of_group(set: &LeaderWorkerSet) -> Option<String> {
    let name = set.metadata.name.as_deref().unwrap_or_default();
    let replicas = set.spec.replicas.unwrap_or(1);
    let status = set.status.clone().unwrap_or_default();
    let (updated, ready) =
        (status.updated_replicas.unwrap_or_default(), status.ready_replicas.unwrap_or_default());
    if updated >= replicas && ready >= replicas {
        return None;
    }
    Some(format!(
        "LeaderWorkerSet {name} has {} of {replicas} groups of the newest revision, {} of {replicas} ready",
        updated.min(replicas),
        ready.min(replicas)
    ))
}
