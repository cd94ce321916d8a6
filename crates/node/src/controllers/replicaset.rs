//! ReplicaSets: run the desired number of pods.
//!
//! Kubernetes: pkg/controller/replicaset.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};
use longboat_key::Key;
use longboat_watch::text_of;
use tokio::time::Instant;

use super::adoption::{adopter_key, claim};
use super::owners::control_by;
use super::pods::{from_template, is_active, phase, ready_since};
use super::queue::{self, Again, Reconcile, triggers};
use super::setup::{Caches, Setup};
use super::writes::{create_pod, delete_pod, merge_status, now, with_nulls};
use crate::events::{Recorder, Severity};

/// How long the cache may take to show a write. After that, the write counts as lost.
const EXPECTATION_TIMEOUT: Duration = Duration::from_secs(30);

struct ReplicaSets {
    client: Client,
    caches: Caches,
    recorder: Recorder,
    /// Pods that were created or deleted but that the cache does not show yet, by the uid of their set. Without this, a set
    /// that is reconciled twice before the watch catches up would get its pods twice.
    unseen: HashMap<String, Expectations>,
}

#[derive(Debug, Default)]
struct Expectations {
    created: HashMap<String, Instant>,
    deleted: HashMap<String, Instant>,
}

pub(super) async fn run(Setup { client, caches, recorder, cancel }: Setup) {
    let sets = caches.replica_sets.clone();
    let pods = triggers(&caches.pods, move |pod: &Pod| adopter_key(&sets, pod));
    caches.pods.ready().await;
    let objects = caches.replica_sets.clone();
    let sets = ReplicaSets { client, caches, recorder, unseen: HashMap::new() };
    queue::run(sets, objects, pods, cancel).await;
}

impl Reconcile<ReplicaSet> for ReplicaSets {
    const NAME: &'static str = "replicaset";

    async fn finalize(&mut self, key: &Key, set: &ReplicaSet) -> Again {
        self.reconcile(key, set).await
    }

    async fn reconcile(&mut self, _: &Key, set: &ReplicaSet) -> Again {
        let uid = set.uid().unwrap_or_default();
        let pods = claim(&self.client, &self.caches.pods, set, is_active).await?;
        let unseen = self.unseen.entry(uid.clone()).or_default();
        let waiting = unseen.settle(&pods);
        let active: Vec<_> =
            pods.iter().filter(|pod| is_active(pod) && !unseen.deleted.contains_key(pod_uid(pod))).collect();

        let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1).max(0);
        // Pods that were created and are not in the cache yet count, or a second reconcile would create them again.
        let have = i32::try_from(active.len() + unseen.created.len()).unwrap_or(i32::MAX);
        let mut failure = None;
        if set.metadata.deletion_timestamp.is_none() {
            if have < wanted {
                failure = self.create(set, wanted - have).await.err().map(|error| ("FailedCreate", error));
            } else if have > wanted {
                let removed = self.remove(set, &active, have - wanted).await;
                failure = removed.err().map(|error| ("FailedDelete", error));
            }
        }
        let again = self
            .write_status(set, &pods, failure.as_ref().map(|(reason, error)| (*reason, text_of(error))))
            .await?;
        // Otherwise each set that ever existed would leave an entry.
        if self.unseen.get(&uid).is_some_and(Expectations::is_empty) {
            self.unseen.remove(&uid);
        }
        match failure {
            Some((_, error)) => Err(error),
            None => Ok(again.into_iter().chain(waiting.then_some(EXPECTATION_TIMEOUT)).min()),
        }
    }
}

impl Expectations {
    /// Removes the entries that the cache now shows. Returns `true` while entries are left.
    fn settle(&mut self, pods: &[Arc<Pod>]) -> bool {
        let present: HashMap<&str, bool> = pods.iter().map(|pod| (pod_uid(pod), is_active(pod))).collect();
        let fresh = |since: &Instant| since.elapsed() < EXPECTATION_TIMEOUT;
        self.created.retain(|uid, since| fresh(since) && !present.contains_key(uid.as_str()));
        self.deleted.retain(|uid, since| fresh(since) && present.get(uid.as_str()) == Some(&true));
        !self.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.created.is_empty() && self.deleted.is_empty()
    }
}

fn pod_uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

impl ReplicaSets {
    async fn create(&mut self, set: &ReplicaSet, count: i32) -> Result<(), kube::Error> {
        for _ in 0..count {
            let pod = create_pod(&self.client, &self.recorder, set, &pod_from(set)).await?;
            // The watch event may have arrived before the response.
            if self.caches.pods.get(&pod.namespace().unwrap_or_default(), &pod.name_any()).is_none() {
                let unseen = self.unseen.entry(set.uid().unwrap_or_default()).or_default();
                unseen.created.insert(pod.uid().unwrap_or_default(), Instant::now());
            }
        }
        Ok(())
    }

    async fn remove(
        &mut self,
        set: &ReplicaSet,
        active: &[&Arc<Pod>],
        count: i32,
    ) -> Result<(), kube::Error> {
        let mut ranked = active.to_vec();
        ranked.sort_by_cached_key(|pod| removal_rank(pod));
        for pod in ranked.into_iter().take(usize::try_from(count).unwrap_or(0)) {
            if let Err(error) = delete_pod(&self.client, pod).await {
                let message = format!("Error deleting: {}", text_of(&error));
                self.recorder.publish(set, Severity::Warning, "FailedDelete", message);
                return Err(error);
            }
            let unseen = self.unseen.entry(set.uid().unwrap_or_default()).or_default();
            unseen.deleted.insert(pod.uid().unwrap_or_default(), Instant::now());
            let message = format!("Deleted pod: {}", pod.name_any());
            self.recorder.publish(set, Severity::Normal, "SuccessfulDelete", message);
        }
        Ok(())
    }

    /// Writes the status if it has changed. Returns the time until the next pod becomes available.
    async fn write_status(
        &self,
        set: &ReplicaSet,
        pods: &[Arc<Pod>],
        failure: Option<(&'static str, String)>,
    ) -> Again {
        let before = set.status.clone().unwrap_or_default();
        let (status, again) = status(set, pods, &before, failure, Timestamp::now());
        if status != before {
            let removable = [
                "availableReplicas",
                "fullyLabeledReplicas",
                "readyReplicas",
                "conditions",
                "terminatingReplicas",
            ];
            merge_status(&self.client, set, with_nulls(&status, &removable)).await?;
        }
        Ok(again)
    }
}

fn pod_from(set: &ReplicaSet) -> Pod {
    let template = set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
    let mut pod = from_template(template, control_by(set));
    pod.metadata.generate_name = Some(format!("{}-", set.name_any()));
    pod
}

/// Returns a sort key: pods with lower ranks are removed first. Kubernetes: pkg/controller/controller_utils.go
/// ActivePodsWithRanks.
pub(super) fn removal_rank(pod: &Pod) -> impl Ord + use<> {
    let bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let phase = match phase(pod) {
        "Running" => 2,
        "Pending" | "" => 0,
        _ => 1,
    };
    let ready = ready_since(pod);
    let cost = pod
        .annotations()
        .get("controller.kubernetes.io/pod-deletion-cost")
        .and_then(|cost| cost.parse::<i32>().ok());
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    let restarts = statuses.into_iter().flatten().map(|status| status.restart_count).max().unwrap_or(0);
    let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (
        bound,
        phase,
        ready.is_some(),
        cost.unwrap_or(0),
        Reverse(ready),
        Reverse(restarts),
        Reverse(created),
        pod.name_any(),
    )
}

/// Returns the time at which a pod is or will be available, which means ready for `minReadySeconds`.
pub(super) fn available_at(pod: &Pod, min_ready_seconds: i32) -> Option<Timestamp> {
    let wait = jiff::SignedDuration::from_secs(i64::from(min_ready_seconds));
    ready_since(pod).map(|since| since.checked_add(wait).unwrap_or(Timestamp::MAX))
}

fn status(
    set: &ReplicaSet,
    pods: &[Arc<Pod>],
    before: &ReplicaSetStatus,
    failure: Option<(&'static str, String)>,
    at: Timestamp,
) -> (ReplicaSetStatus, Option<Duration>) {
    let spec = set.spec.clone().unwrap_or_default();
    let template_labels = spec.template.and_then(|template| template.metadata).and_then(|meta| meta.labels);
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let active: Vec<_> = pods.iter().filter(|pod| is_active(pod)).collect();
    let count = |wanted: &dyn Fn(&Pod) -> bool| {
        i32::try_from(active.iter().filter(|pod| wanted(pod)).count()).unwrap_or(i32::MAX)
    };
    let labels: HashSet<_> = template_labels.into_iter().flatten().collect();
    let fully_labeled = count(&|pod| labels.iter().all(|(key, value)| pod.labels().get(key) == Some(value)));
    let ready = count(&|pod| ready_since(pod).is_some());
    let available = count(&|pod| available_at(pod, min_ready).is_some_and(|due| due <= at));
    let next = active.iter().filter_map(|pod| available_at(pod, min_ready)).filter(|due| *due > at).min();
    // A little later than due, because the timer and the wall clock differ.
    let again = next.map(|due| due.duration_since(at).unsigned_abs() + Duration::from_millis(10));

    let mut conditions: Vec<_> = before
        .conditions
        .iter()
        .flatten()
        .filter(|condition| condition.type_ != "ReplicaFailure")
        .cloned()
        .collect();
    if let Some((reason, message)) = failure {
        let earlier =
            before.conditions.iter().flatten().find(|condition| condition.type_ == "ReplicaFailure");
        let same = earlier.filter(|earlier| earlier.reason.as_deref() == Some(reason)).cloned();
        conditions.push(same.unwrap_or_else(|| ReplicaSetCondition {
            type_: "ReplicaFailure".to_owned(),
            status: "True".to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_transition_time: Some(now()),
        }));
    }
    let some = |count: i32| (count > 0).then_some(count);
    let status = ReplicaSetStatus {
        replicas: count(&|_| true),
        fully_labeled_replicas: some(fully_labeled),
        ready_replicas: some(ready),
        available_replicas: some(available),
        observed_generation: set.metadata.generation,
        conditions: Some(conditions).filter(|conditions| !conditions.is_empty()),
        ..before.clone()
    };
    (status, again)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, value: Value) -> Pod {
        let mut pod: Pod = serde_json::from_value(value).unwrap();
        pod.metadata.name = Some(name.into());
        pod.metadata.uid = Some(name.into());
        pod
    }

    fn ready(name: &str, since: &str, created: &str) -> Pod {
        pod(
            name,
            json!({"metadata": {"creationTimestamp": created}, "spec": {"nodeName": "n", "containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]}}),
        )
    }

    #[test]
    fn pods_that_serve_least_go_first() {
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        let mut costly = ready("costly", late, late);
        costly.annotations_mut().insert("controller.kubernetes.io/pod-deletion-cost".into(), "5".into());
        let mut pods = [
            ready("old", early, early),
            costly,
            ready("young", late, late),
            pod(
                "running",
                json!({"spec": {"nodeName": "n", "containers": []}, "status": {"phase": "Running"}}),
            ),
            pod("unbound", json!({"spec": {"containers": []}, "status": {"phase": "Pending"}})),
            pod(
                "pending",
                json!({"spec": {"nodeName": "n", "containers": []}, "status": {"phase": "Pending"}}),
            ),
        ];
        pods.sort_by_cached_key(removal_rank);
        let names: Vec<_> = pods.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["unbound", "pending", "running", "young", "old", "costly"]);
    }

    #[test]
    fn writes_that_the_cache_does_not_show_are_counted() {
        let mut unseen = Expectations::default();
        unseen.created.insert("new".into(), Instant::now());
        unseen.deleted.insert("old".into(), Instant::now());
        let old = Arc::new(pod("old", json!({})));
        assert!(unseen.settle(&[Arc::clone(&old)]));
        assert_eq!((unseen.created.len(), unseen.deleted.len()), (1, 1));
        assert!(!unseen.settle(&[Arc::new(pod("new", json!({})))]));
    }

    #[test]
    fn status_counts_pods_and_waits_for_min_ready_seconds() {
        let set: ReplicaSet = serde_json::from_value(json!({"metadata": {"name": "s", "generation": 2},
            "spec": {"minReadySeconds": 10, "selector": {}, "template": {"metadata": {"labels": {"a": "b"}}}}}))
        .unwrap();
        let mut labelled = ready("one", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z");
        labelled.labels_mut().insert("a".into(), "b".into());
        let pods =
            [Arc::new(labelled), Arc::new(ready("two", "2026-01-01T00:00:55Z", "2026-01-01T00:00:00Z"))];
        let at = "2026-01-01T00:01:00Z".parse().unwrap();
        let (status, again) = status(&set, &pods, &ReplicaSetStatus::default(), None, at);
        assert_eq!(
            (status.replicas, status.ready_replicas, status.available_replicas),
            (2, Some(2), Some(1))
        );
        assert_eq!((status.fully_labeled_replicas, status.observed_generation), (Some(1), Some(2)));
        assert_eq!(again, Some(Duration::from_millis(5010)));
    }
}
