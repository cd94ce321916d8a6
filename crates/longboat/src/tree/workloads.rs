//! The workloads of a service with their pods. Pure functions.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    jiff::Timestamp,
};
use kube::{Resource, ResourceExt};
use longboat_api::{foreign::leaderworkerset::LeaderWorkerSet, labels, v1alpha2::LLMInferenceService};
use longboat_plan::pods::{SET_NAME, is_ready};

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
        let desired = match self.object {
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
        desired == Some(0) || self.pods.iter().any(is_new)
    }
}

/// Whether all workloads of a service serve with pods that run since this time or later.
pub(crate) fn serve_since(seen: &TreeObjects, service: &LLMInferenceService, time: Timestamp) -> bool {
    Index::of(seen).workloads(service).iter().all(|workload| workload.serves_since(time))
}

/// Which service owns which workload, and which pods have which labels. A tree may have thousands of each.
pub(super) struct Index<'a> {
    deployments: HashMap<&'a str, Vec<&'a Deployment>>,
    sets: HashMap<&'a str, Vec<&'a LeaderWorkerSet>>,
    /// By namespace, label and value.
    pods: HashMap<[&'a str; 3], Vec<&'a Pod>>,
}

// === impl Index ===

impl<'a> Index<'a> {
    pub(super) fn of(seen: &'a TreeObjects) -> Self {
        let mut pods: HashMap<_, Vec<&Pod>> = HashMap::new();
        for pod in &seen.pods {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            for (label, value) in pod.metadata.labels.iter().flatten() {
                pods.entry([namespace, label, value]).or_default().push(pod);
            }
        }
        Self { deployments: by_owner(&seen.deployments), sets: by_owner(&seen.sets), pods }
    }

    /// Returns the workloads that a service owns, each kind sorted by name.
    pub(super) fn workloads(&self, service: &LLMInferenceService) -> Vec<Workload<'a>> {
        let uid = service.metadata.uid.as_deref().unwrap_or_default();
        let deployments = self.deployments.get(uid).into_iter().flatten().map(|found| {
            let selector = found.spec.as_ref().and_then(|spec| spec.selector.match_labels.as_ref());
            let pods = selector.map(|selector| self.pods(&found.metadata, selector));
            Workload { object: Owner::Deployment(found), pods: pods.unwrap_or_default() }
        });
        let sets = self.sets.get(uid).into_iter().flatten().map(|found| {
            let name = found.metadata.name.clone().unwrap_or_default();
            let selector = BTreeMap::from([(SET_NAME.to_owned(), name)]);
            Workload { object: Owner::Group(found), pods: self.pods(&found.metadata, &selector) }
        });
        deployments.chain(sets).collect()
    }

    fn pods(&self, owner: &ObjectMeta, selector: &BTreeMap<String, String>) -> Vec<&'a Pod> {
        let namespace = owner.namespace.as_deref().unwrap_or_default();
        let with_label = selector.iter().map(|(label, value)| {
            let found = self.pods.get(&[namespace, label.as_str(), value.as_str()]);
            found.map(Vec::as_slice).unwrap_or_default()
        });
        let fewest = with_label.min_by_key(|pods| pods.len()).unwrap_or_default();
        let is_selected = |pod: &&Pod| {
            let labels = pod.metadata.labels.as_ref();
            selector.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
        };
        let mut pods: Vec<&Pod> = fewest.iter().copied().filter(is_selected).collect();
        pods.sort_by_key(|pod| &pod.metadata.name);
        pods
    }
}

/// The workloads of services by the uid of their owner, sorted by name.
fn by_owner<K: Resource>(objects: &[Arc<K>]) -> HashMap<&str, Vec<&K>> {
    let mut all: HashMap<&str, Vec<&K>> = HashMap::new();
    let is_ours = |object: &&Arc<K>| object.labels().contains_key(labels::PART_OF);
    for object in objects.iter().filter(is_ours) {
        for owner in object.meta().owner_references.iter().flatten() {
            all.entry(&owner.uid).or_default().push(object);
        }
    }
    for owned in all.values_mut() {
        owned.sort_by_key(|object| object.meta().name.as_ref());
    }
    all
}
