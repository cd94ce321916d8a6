//! PodDisruptionBudgets: report how many pods may be evicted.
//!
//! Kubernetes: pkg/controller/disruption.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{DynamicObject, GroupVersionKind};
use kube::core::{Selector, SelectorExt};
use kube::{Api, Client, ResourceExt, discovery};
use longboat_key::Key;
use longboat_watch::text_of;
use serde_json::Value;

use super::int_or_percent::resolve;
use super::owners::{controller_of, owner_key};
use super::pods::ready_since;
use super::queue::{self, Again, Reconcile, triggers};
use super::setup::{Caches, Setup};
use super::writes::{merge_status, now, tolerate, with_nulls};
use crate::cache::Cache;
use crate::events::{Recorder, Severity};

/// How long the deletion of an evicted pod may take. After that, the pod counts again.
const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

/// The wait before a budget whose pods could not be counted is looked at again.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

struct Budgets {
    client: Client,
    caches: Caches,
    recorder: Recorder,
}

pub(super) async fn run(Setup { client, caches, recorder, cancel }: Setup) {
    let (budgets, watch) = Cache::<PodDisruptionBudget>::new(&client, cancel.clone());
    let known = budgets.clone();
    let pods = triggers(&caches.pods, move |pod: &Pod| {
        let mut all = known.all();
        all.retain(|budget| selects(budget, pod));
        all.into_iter().map(|budget| Key::of(budget.as_ref())).collect::<Vec<_>>()
    });
    let controller = async {
        // Not LeaderWorkerSets, which not every API server has.
        caches.pods.ready().await;
        caches.replica_sets.ready().await;
        caches.deployments.ready().await;
        caches.stateful_sets.ready().await;
        let controller = Budgets { client, caches, recorder };
        queue::run(controller, budgets, pods, cancel).await;
    };
    tokio::join!(watch, controller);
}

/// Whether a budget covers a pod. An empty selector selects all pods of the namespace.
fn selects(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.clone()).map(Selector::try_from);
    budget.metadata.namespace == pod.metadata.namespace
        && selector.and_then(Result::ok).is_some_and(|selector| selector.matches(pod.labels()))
}

impl Reconcile<PodDisruptionBudget> for Budgets {
    const NAME: &'static str = "disruption";

    async fn reconcile(&mut self, _: &Key, budget: &PodDisruptionBudget) -> Again {
        let mut pods = self.caches.pods.all();
        pods.retain(|pod| selects(budget, pod));
        if pods.is_empty() {
            self.recorder.publish(budget, Severity::Normal, "NoPods", "No matching pods found");
        }
        let expected = self.expected(budget, &pods).await;
        if let Err(why) = &expected {
            let message = format!("Failed to calculate the number of expected pods: {why}");
            self.recorder.publish(budget, Severity::Warning, "CalculateExpectedPodCountFailed", message);
        }
        let before = budget.status.clone().unwrap_or_default();
        let at = Timestamp::now();
        let is_uncounted = expected.is_err();
        let status = status(budget, &pods, expected, at);
        let pending = status.disrupted_pods.iter().flatten().map(|(_, since)| expiry(since)).min();
        if status != before {
            let mut patch = with_nulls(&status, &["disruptedPods"]);
            for name in before.disrupted_pods.iter().flat_map(|pods| pods.keys()) {
                if patch["disruptedPods"].get(name).is_none() && patch["disruptedPods"].is_object() {
                    patch["disruptedPods"][name] = Value::Null;
                }
            }
            merge_status(&self.client, budget, patch).await?;
        }
        let wait = pending.map(|due| due.duration_since(at).unsigned_abs() + Duration::from_millis(10));
        Ok(wait.into_iter().chain(is_uncounted.then_some(RETRY_INTERVAL)).min())
    }
}

impl Budgets {
    /// Returns how many pods should run. The error says for which pod this is unknown.
    async fn expected(&self, budget: &PodDisruptionBudget, pods: &[Arc<Pod>]) -> Result<i32, String> {
        let spec = budget.spec.as_ref();
        match spec.and_then(|spec| spec.max_unavailable.as_ref().or(spec.min_available.as_ref())) {
            None => return Ok(0),
            Some(IntOrString::Int(_)) if spec.is_some_and(|spec| spec.max_unavailable.is_none()) => {
                return Ok(i32::try_from(pods.len()).unwrap_or(i32::MAX));
            }
            Some(_) => {}
        }
        let mut scales: HashMap<String, i32> = HashMap::new();
        let mut unmanaged = Vec::new();
        for pod in pods {
            let Some(owner) = controller_of(pod.as_ref()) else {
                unmanaged.push(pod.name_any());
                continue;
            };
            if scales.contains_key(&owner.uid) {
                continue;
            }
            let scale = self.scale(pod, owner).await.map_err(|error| text_of(&error))?;
            let (uid, replicas) =
                scale.ok_or_else(|| format!("found no controllers for pod \"{}\"", pod.name_any()))?;
            scales.insert(uid, replicas);
        }
        if !unmanaged.is_empty() {
            let message = format!(
                "pods without a controller are not counted: {}; give them one, or set .spec.minAvailable to an integer",
                unmanaged.join(", ")
            );
            self.recorder.publish(budget, Severity::Warning, "UnmanagedPods", message);
        }
        Ok(scales.values().fold(0, |sum, replicas| sum.saturating_add(*replicas)))
    }

    /// Returns the uid of the object that decides about the number of pods like this one, and the number.
    async fn scale(&self, pod: &Pod, owner: &OwnerReference) -> Result<Option<(String, i32)>, kube::Error> {
        let namespace = pod.namespace().unwrap_or_default();
        let one = |replicas: Option<i32>| Some((owner.uid.clone(), replicas.unwrap_or(1)));
        let caches = &self.caches;
        Ok(match owner.kind.as_str() {
            "ReplicaSet" => caches.replica_sets.get(&namespace, &owner.name).and_then(|set| {
                let deployment = owner_key(set.as_ref(), "Deployment")
                    .and_then(|key| caches.deployments.get(&key.namespace, &key.name));
                match deployment {
                    Some(deployment) => {
                        Some((deployment.uid()?, deployment.spec.as_ref()?.replicas.unwrap_or(1)))
                    }
                    None => one(set.spec.as_ref()?.replicas),
                }
            }),
            "StatefulSet" => caches
                .stateful_sets
                .get(&namespace, &owner.name)
                .and_then(|set| one(set.spec.as_ref()?.replicas)),
            "LeaderWorkerSet" => {
                caches.leader_worker_sets.get(&namespace, &owner.name).and_then(|set| one(set.spec.replicas))
            }
            // A leader controls the workers of its group.
            "Pod" => caches.pods.get(&namespace, &owner.name).and_then(|leader| {
                let key = owner_key(leader.as_ref(), "LeaderWorkerSet")?;
                let set = caches.leader_worker_sets.get(&key.namespace, &key.name)?;
                one(Some(set.spec.leader_worker_template.size.unwrap_or(1) - 1))
            }),
            kind => {
                let (group, version) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
                let kind = GroupVersionKind::gvk(group, version, kind);
                let (resource, _) = discovery::pinned_kind(&self.client, &kind).await?;
                let api: Api<DynamicObject> =
                    Api::namespaced_with(self.client.clone(), &namespace, &resource);
                let scale = tolerate(api.get_scale(&owner.name).await, &[404, 405])?;
                scale.and_then(|scale| one(scale.spec?.replicas))
            }
        })
    }
}

/// Returns until when an evicted pod counts as disrupted.
fn expiry(since: &Time) -> Timestamp {
    since.0.checked_add(DELETION_TIMEOUT).unwrap_or(Timestamp::MAX)
}

fn status(
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
    expected: Result<i32, String>,
    at: Timestamp,
) -> PodDisruptionBudgetStatus {
    let before = budget.status.clone().unwrap_or_default();
    let expected = match expected {
        Ok(expected) => expected,
        Err(why) => {
            let conditions = conditions(&before, before.observed_generation, false, "SyncFailed", why);
            return PodDisruptionBudgetStatus {
                disruptions_allowed: 0,
                conditions: Some(conditions),
                ..before
            };
        }
    };
    let spec = budget.spec.clone().unwrap_or_default();
    let desired = match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => (expected - resolve(Some(most), "", expected, true)).max(0),
        (None, least) => resolve(least.as_ref(), "", expected, true),
    };
    let staying = || pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let disrupted: BTreeMap<String, Time> = before
        .disrupted_pods
        .iter()
        .flatten()
        .filter(|(name, since)| expiry(since) > at && staying().any(|pod| pod.name_any() == **name))
        .map(|(name, since)| (name.clone(), since.clone()))
        .collect();
    let healthy = staying()
        .filter(|pod| !disrupted.contains_key(&pod.name_any()) && ready_since(pod).is_some())
        .count();
    let healthy = i32::try_from(healthy).unwrap_or(i32::MAX);
    let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
    let generation = budget.metadata.generation;
    let reason = if allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
    PodDisruptionBudgetStatus {
        conditions: Some(conditions(&before, generation, allowed > 0, reason, String::new())),
        current_healthy: healthy,
        desired_healthy: desired,
        disrupted_pods: (!disrupted.is_empty()).then_some(disrupted),
        disruptions_allowed: allowed,
        expected_pods: expected,
        observed_generation: generation,
    }
}

/// Returns the conditions with this one of the controller.
fn conditions(
    before: &PodDisruptionBudgetStatus,
    generation: Option<i64>,
    holds: bool,
    reason: &str,
    message: String,
) -> Vec<Condition> {
    let type_ = "DisruptionAllowed";
    let (own, mut all): (Vec<_>, Vec<_>) =
        before.conditions.iter().flatten().cloned().partition(|condition| condition.type_ == type_);
    let status = if holds { "True" } else { "False" };
    let since = own.into_iter().find(|own| own.status == status).map(|own| own.last_transition_time);
    all.push(Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: since.unwrap_or_else(now),
        observed_generation: generation,
    });
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn budget(spec: &Value, status: &Value) -> PodDisruptionBudget {
        let metadata = json!({"name": "b", "namespace": "ns", "generation": 2});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    fn ready(name: &str) -> Arc<Pod> {
        let status = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name}, "status": status})).unwrap())
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn evictions_are_allowed_while_more_pods_are_healthy_than_needed() {
        let pods = [ready("a"), ready("b"), ready("c")];
        let none =
            json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0});
        for (spec, expected, desired, allowed) in [
            (json!({"minAvailable": 2}), 3, 2, 1),
            (json!({"minAvailable": 3}), 3, 3, 0),
            (json!({"minAvailable": "50%"}), 3, 2, 1),
            (json!({"maxUnavailable": 1}), 3, 2, 1),
            (json!({"maxUnavailable": "10%"}), 3, 2, 1),
            (json!({"maxUnavailable": 1}), 5, 4, 0),
            (json!({"maxUnavailable": 4}), 3, 0, 3),
            (json!({}), 0, 0, 0),
        ] {
            let status = status(&budget(&spec, &none), &pods, Ok(expected), Timestamp::UNIX_EPOCH);
            let found = (status.desired_healthy, status.current_healthy, status.disruptions_allowed);
            assert_eq!(found, (desired, 3, allowed), "{spec}");
            let condition = &status.conditions.unwrap()[0];
            let reason = if allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
            assert_eq!((condition.reason.as_str(), status.observed_generation), (reason, Some(2)), "{spec}");
        }
    }

    #[test]
    fn an_evicted_pod_does_not_count_for_two_minutes() {
        let before = json!({
            "currentHealthy": 2, "desiredHealthy": 1, "disruptionsAllowed": 0, "expectedPods": 2,
            "disruptedPods": {"a": "2026-01-01T00:00:00Z", "gone": "2026-01-01T00:00:00Z"},
        });
        let budget = budget(&json!({"minAvailable": 1}), &before);
        let pods = [ready("a"), ready("b")];
        let first = status(&budget, &pods, Ok(2), at("2026-01-01T00:01:59Z"));
        assert_eq!(first.disrupted_pods.unwrap().into_keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!((first.current_healthy, first.disruptions_allowed), (1, 0));
        let second = status(&budget, &pods, Ok(2), at("2026-01-01T00:02:00Z"));
        assert_eq!((second.current_healthy, second.disruptions_allowed, second.disrupted_pods), (2, 1, None));
        let failed = status(&budget, &pods, Err("why".to_owned()), at("2026-01-01T00:02:00Z"));
        let condition = &failed.conditions.unwrap()[0];
        assert_eq!((condition.reason.as_str(), condition.message.as_str()), ("SyncFailed", "why"));
        assert_eq!((failed.disruptions_allowed, failed.current_healthy), (0, 2));
    }
}
