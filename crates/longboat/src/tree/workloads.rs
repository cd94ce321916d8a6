//! The workloads of a service with their pods. Pure functions.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    jiff::Timestamp,
};
use longboat_api::{foreign::leaderworkerset::LeaderWorkerSet, labels, v1alpha2::LLMInferenceService};
use longboat_key::Namespace;
use longboat_plan::pods::{SET_NAME, is_ready, selected};

use super::TreeObjects;

/// The controller of pods.
pub(super) enum Owner<'a> {
    Deployment(&'a Deployment),
    Group(&'a LeaderWorkerSet),
}

/// A workload and its pods, sorted by name.
pub(super) struct Workload<'a> {
    pub(super) object: Owner<'a>,
    pub(super) pods: Vec<&'a Pod>,
}

// === impl Workload ===

impl Workload<'_> {
    /// Returns when the current rollout was complete, if it is.
    pub(super) fn completed_at(&self) -> Option<Timestamp> {
        let Owner::Deployment(deployment) = self.object else { return None };
        let mut conditions = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
        // The Deployment controller gives this reason to `Progressing` at the end of a rollout, and then lets it be.
        let complete = conditions.find(|found| found.reason.as_deref() == Some("NewReplicaSetAvailable"))?;
        complete.last_update_time.as_ref().map(|time| time.0)
    }

    /// Whether a pod is ready whose containers run since this time or later, or whether the workload needs no pod.
    fn serves_since(&self, time: Timestamp) -> bool {
        let wanted = match self.object {
            Owner::Deployment(found) => found.spec.as_ref().and_then(|spec| spec.replicas),
            Owner::Group(found) => found.spec.replicas,
        };
        let is_new = |pod: &&Pod| {
            let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
            let mut running =
                statuses.filter_map(|found| found.state.as_ref()?.running.as_ref()?.started_at.as_ref());
            // Times in statuses have whole seconds.
            is_ready(pod) && running.all(|started| started.0.as_second() >= time.as_second())
        };
        wanted == Some(0) || self.pods.iter().any(is_new)
    }
}

/// Whether all workloads of a service serve with pods that run since this time or later.
pub(crate) fn serve_since(seen: &TreeObjects, service: &LLMInferenceService, time: Timestamp) -> bool {
    of(seen, service).iter().all(|workload| workload.serves_since(time))
}

/// Returns the workloads that a service owns, each kind sorted by name.
pub(super) fn of<'a>(seen: &'a TreeObjects, service: &LLMInferenceService) -> Vec<Workload<'a>> {
    let mut deployments: Vec<_> =
        seen.deployments.iter().filter(|found| owned(&found.metadata, service)).collect();
    deployments.sort_by_key(|found| &found.metadata.name);
    let mut sets: Vec<_> = seen.sets.iter().filter(|found| owned(&found.metadata, service)).collect();
    sets.sort_by_key(|found| &found.metadata.name);
    let deployments = deployments.into_iter().map(|found| {
        let selector = found.spec.as_ref().and_then(|spec| spec.selector.match_labels.as_ref());
        Workload { object: Owner::Deployment(found), pods: pods(seen, &found.metadata, selector) }
    });
    let sets = sets.into_iter().map(|found| {
        let name = found.metadata.name.clone().unwrap_or_default();
        let selector = BTreeMap::from([(SET_NAME.to_owned(), name)]);
        Workload { object: Owner::Group(found), pods: pods(seen, &found.metadata, Some(&selector)) }
    });
    deployments.chain(sets).collect()
}

fn pods<'a>(
    seen: &'a TreeObjects,
    owner: &ObjectMeta,
    labels: Option<&BTreeMap<String, String>>,
) -> Vec<&'a Pod> {
    let Some(labels) = labels else { return Vec::new() };
    let pods = seen.pods.iter().map(AsRef::as_ref);
    let mut pods: Vec<&Pod> = selected(pods, Namespace::of(owner), labels).collect();
    pods.sort_by_key(|pod| &pod.metadata.name);
    pods
}

fn owned(object: &ObjectMeta, service: &LLMInferenceService) -> bool {
    let uid = service.metadata.uid.as_ref();
    object.owner_references.iter().flatten().any(|owner| Some(&owner.uid) == uid)
        && object.labels.as_ref().is_some_and(|all| all.contains_key(labels::PART_OF))
}
