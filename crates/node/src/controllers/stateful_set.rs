//! StatefulSets: numbered pods with claims of their own, one after the other.
//!
//! Kubernetes: pkg/controller/statefulset. Revisions are digests of the template. There are no ControllerRevisions, so
//! `kubectl rollout undo` cannot roll a set back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client, ResourceExt};
use longboat_key::Key;
use longboat_watch::text_of;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::adoption::{adopter_key, claim};
use super::int_or_percent;
use super::owners::control_by;
use super::pods::{from_template, has_ended, ready_since};
use super::queue::{self, Again, Reconcile, triggers};
use super::replicaset::available_at;
use super::setup::Setup;
use super::writes::{api_beside, delete_pod, merge_status, tolerate, with_nulls};
use crate::cache::Cache;
use crate::events::{Recorder, Severity};

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
const REVISION: &str = "controller-revision-hash";

struct StatefulSets {
    client: Client,
    pods: Cache<Pod>,
    recorder: Recorder,
}

pub(super) async fn run(Setup { client, caches, recorder, cancel }: Setup) {
    let sets = caches.stateful_sets.clone();
    let pods = triggers(&caches.pods, move |pod: &Pod| adopter_key(&sets, pod));
    caches.pods.ready().await;
    let sets = StatefulSets { client, pods: caches.pods, recorder };
    queue::run(sets, caches.stateful_sets, pods, cancel).await;
}

/// The actions for a set.
#[derive(Debug, Default, PartialEq)]
struct Plan {
    /// The ordinals of the pods to create.
    create: Vec<i32>,
    /// The names of the pods to delete.
    delete: Vec<String>,
    status: StatefulSetStatus,
    again: Option<Duration>,
}

impl Reconcile<StatefulSet> for StatefulSets {
    const NAME: &'static str = "statefulset";

    async fn reconcile(&mut self, key: &Key, set: &StatefulSet) -> Again {
        let pods = claim(&self.client, &self.pods, set, |pod| ordinal_of(set, pod).is_some()).await?;
        let plan = plan(set, &pods, Timestamp::now());
        for ordinal in &plan.create {
            self.create(set, *ordinal, &plan.status).await?;
        }
        for pod in pods.iter().filter(|pod| plan.delete.contains(&pod.name_any())) {
            if delete_pod(&self.client, pod).await? {
                let message = format!("delete Pod {} in StatefulSet {} successful", pod.name_any(), key.name);
                self.recorder.publish(set, Severity::Normal, "SuccessfulDelete", message);
            }
        }
        self.release_claims(set, &pods).await?;
        if set.status.as_ref() != Some(&plan.status) {
            let status = with_nulls(&plan.status, &["currentReplicas", "readyReplicas", "updatedReplicas"]);
            merge_status(&self.client, set, status).await?;
        }
        Ok(plan.again)
    }
}

impl StatefulSets {
    /// Creates a pod after its claims.
    async fn create(
        &self,
        set: &StatefulSet,
        ordinal: i32,
        status: &StatefulSetStatus,
    ) -> Result<(), kube::Error> {
        let claims: Api<PersistentVolumeClaim> = api_beside(&self.client, set);
        for claim in claims_of(set, ordinal) {
            let name = claim.name_any();
            if claims.get_opt(&name).await?.is_some() {
                continue;
            }
            if tolerate(claims.create(&PostParams::default(), &claim).await, &[409])?.is_some() {
                let set_name = set.name_any();
                let message =
                    format!("create Claim {name} Pod {set_name}-{ordinal} in StatefulSet {set_name} success");
                self.recorder.publish(set, Severity::Normal, "SuccessfulCreate", message);
            }
        }
        let api: Api<Pod> = api_beside(&self.client, set);
        let revision = status.update_revision.clone().unwrap_or_default();
        match api.create(&PostParams::default(), &pod_of(set, ordinal, &revision)).await {
            Ok(pod) => {
                let message =
                    format!("create Pod {} in StatefulSet {} successful", pod.name_any(), set.name_any());
                self.recorder.publish(set, Severity::Normal, "SuccessfulCreate", message);
                Ok(())
            }
            // The cache is behind, or a pod of another owner has this name.
            Err(kube::Error::Api(answer)) if answer.code == 409 => Ok(()),
            Err(error) => {
                let message = format!("create Pod {}-{ordinal} failed: {}", set.name_any(), text_of(&error));
                self.recorder.publish(set, Severity::Warning, "FailedCreate", message);
                Err(error)
            }
        }
    }

    /// Deletes the claims of pods that a scale-down removed, if the set's retention policy says so.
    async fn release_claims(&self, set: &StatefulSet, pods: &[Arc<Pod>]) -> Result<(), kube::Error> {
        let spec = set.spec.clone().unwrap_or_default();
        let policy = spec.persistent_volume_claim_retention_policy.unwrap_or_default();
        let templates = spec.volume_claim_templates.unwrap_or_default();
        if policy.when_scaled.as_deref() != Some("Delete") || templates.is_empty() {
            return Ok(());
        }
        let api: Api<PersistentVolumeClaim> = api_beside(&self.client, set);
        let (first, replicas) = bounds(set);
        for claim in api.list(&kube::api::ListParams::default()).await? {
            let name = claim.name_any();
            let ordinal = templates.iter().find_map(|template| {
                let prefix = format!("{}-{}-", template.name_any(), set.name_any());
                name.strip_prefix(&prefix)?.parse::<i32>().ok()
            });
            let is_left = |ordinal: i32| {
                !(first..first + replicas).contains(&ordinal)
                    && !pods.iter().any(|pod| ordinal_of(set, pod) == Some(ordinal))
            };
            if ordinal.is_some_and(is_left) && claim.metadata.deletion_timestamp.is_none() {
                tolerate(api.delete(&name, &DeleteParams::default()).await, &[404])?;
            }
        }
        Ok(())
    }
}

/// Returns the first ordinal, and the number of replicas.
fn bounds(set: &StatefulSet) -> (i32, i32) {
    let spec = set.spec.clone().unwrap_or_default();
    let first = spec.ordinals.and_then(|ordinals| ordinals.start).unwrap_or(0).max(0);
    (first, spec.replicas.unwrap_or(1).max(0))
}

fn ordinal_of(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    pod.name_any().strip_prefix(&format!("{}-", set.name_any()))?.parse().ok()
}

fn revision(set: &StatefulSet) -> String {
    let template = set.spec.as_ref().map(|spec| json!(spec.template)).unwrap_or_default();
    let digest = Sha256::digest(template.to_string().as_bytes());
    let number = digest.iter().take(5).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    format!("{}-{number:010x}", set.name_any())
}

fn plan(set: &StatefulSet, pods: &[Arc<Pod>], at: Timestamp) -> Plan {
    let spec = set.spec.clone().unwrap_or_default();
    let (first, replicas) = bounds(set);
    let numbered: BTreeMap<i32, &Arc<Pod>> =
        pods.iter().filter_map(|pod| Some((ordinal_of(set, pod)?, pod))).collect();
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let is_available = |pod: &Pod| available_at(pod, min_ready).is_some_and(|due| due <= at);
    let is_leaving = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    let is_healthy = |pod: &Pod| is_available(pod) && !is_leaving(pod);
    let latest = revision(set);
    let has_latest = |pod: &Pod| pod.labels().get(REVISION) == Some(&latest);
    let count = |wanted: &dyn Fn(&Pod) -> bool| {
        i32::try_from(numbered.values().filter(|pod| wanted(pod)).count()).unwrap_or(i32::MAX)
    };
    let some = |count: i32| (count > 0).then_some(count);

    let before = set.status.clone().unwrap_or_default();
    let updated = count(&|pod| has_latest(pod) && !is_leaving(pod));
    let is_updated = updated == replicas && count(&|_| true) == replicas;
    let current = before.current_revision.clone().filter(|_| !is_updated).unwrap_or_else(|| latest.clone());
    let of_current = count(&|pod| pod.labels().get(REVISION) == Some(&current) && !is_leaving(pod));
    let status = StatefulSetStatus {
        replicas: count(&|_| true),
        ready_replicas: some(count(&|pod| ready_since(pod).is_some())),
        available_replicas: Some(count(&is_available)),
        current_replicas: some(of_current),
        updated_replicas: some(updated),
        current_revision: Some(current),
        update_revision: Some(latest.clone()),
        observed_generation: set.metadata.generation,
        collision_count: Some(0),
        ..before
    };
    let due = numbered.values().filter_map(|pod| available_at(pod, min_ready)).filter(|due| *due > at).min();
    // A little later than due, because the timer and the wall clock differ.
    let again = due.map(|due| due.duration_since(at).unsigned_abs() + Duration::from_millis(10));
    let mut plan = Plan { status, again, ..Plan::default() };

    let in_order = spec.pod_management_policy.as_deref() != Some("Parallel");
    let wanted = first..first.saturating_add(replicas);
    for ordinal in wanted.clone() {
        match numbered.get(&ordinal) {
            None => plan.create.push(ordinal),
            // A pod that has ended is deleted, so that it can be recreated.
            Some(pod) if has_ended(pod) && !is_leaving(pod) => plan.delete.push(pod.name_any()),
            Some(pod) if is_healthy(pod) => continue,
            Some(_) => {}
        }
        if in_order {
            return plan;
        }
    }
    let extra: Vec<&&Arc<Pod>> =
        numbered.iter().rev().filter(|(ordinal, _)| !wanted.contains(ordinal)).map(|(_, pod)| pod).collect();
    for pod in &extra {
        if !is_leaving(pod) {
            plan.delete.push(pod.name_any());
        }
        // Delete the last pod first, and the next one when it is gone.
        if in_order {
            return plan;
        }
    }
    let strategy = spec.update_strategy.unwrap_or_default();
    if strategy.type_.as_deref() == Some("OnDelete") || !extra.is_empty() {
        return plan;
    }
    let rolling = strategy.rolling_update.unwrap_or_default();
    let from = first.saturating_add(rolling.partition.unwrap_or(0));
    let most = rolling.max_unavailable.as_ref();
    let most = int_or_percent::resolve(most, "1", replicas, false).max(1);
    let mut unavailable = replicas - count(&is_healthy);
    for (_, pod) in numbered.iter().rev().filter(|(ordinal, _)| **ordinal >= from && wanted.contains(ordinal))
    {
        if has_latest(pod) || is_leaving(pod) || plan.delete.contains(&pod.name_any()) {
            continue;
        }
        // Deleting a pod that is not healthy costs no availability.
        if is_healthy(pod) {
            if unavailable >= most {
                break;
            }
            unavailable += 1;
        }
        plan.delete.push(pod.name_any());
    }
    plan
}

/// Returns the claims of a pod.
fn claims_of(set: &StatefulSet, ordinal: i32) -> Vec<PersistentVolumeClaim> {
    let spec = set.spec.clone().unwrap_or_default();
    let labels = spec.selector.match_labels.clone();
    let policy = spec.persistent_volume_claim_retention_policy.unwrap_or_default();
    let goes = policy.when_deleted.as_deref() == Some("Delete");
    let templates = spec.volume_claim_templates.into_iter().flatten();
    templates
        .map(|template| {
            let name = format!("{}-{}-{ordinal}", template.name_any(), set.name_any());
            let mut all = labels.clone().unwrap_or_default();
            all.extend(template.metadata.labels.clone().unwrap_or_default());
            PersistentVolumeClaim {
                metadata: ObjectMeta {
                    name: Some(name),
                    namespace: set.namespace(),
                    labels: Some(all).filter(|labels| !labels.is_empty()),
                    annotations: template.metadata.annotations.clone(),
                    owner_references: goes.then(|| vec![control_by(set)]),
                    ..ObjectMeta::default()
                },
                spec: template.spec,
                status: None,
            }
        })
        .collect()
}

fn pod_of(set: &StatefulSet, ordinal: i32, revision: &str) -> Pod {
    let name = format!("{}-{ordinal}", set.name_any());
    let spec = set.spec.clone().unwrap_or_default();
    let mut numbered = from_template(spec.template, control_by(set));
    numbered.labels_mut().extend(
        [(POD_NAME, name.clone()), (POD_INDEX, ordinal.to_string()), (REVISION, revision.to_owned())]
            .map(|(key, value)| (key.to_owned(), value)),
    );
    let pod = numbered.spec.get_or_insert_default();
    pod.hostname = Some(name.clone());
    pod.subdomain = spec.service_name.filter(|name| !name.is_empty());
    let templates = spec.volume_claim_templates.unwrap_or_default();
    let volumes = pod.volumes.get_or_insert_default();
    for template in &templates {
        volumes.retain(|volume| volume.name != template.name_any());
        volumes.push(Volume {
            name: template.name_any(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: format!("{}-{name}", template.name_any()),
                read_only: None,
            }),
            ..Volume::default()
        });
    }
    numbered.metadata.name = Some(name);
    numbered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(spec: serde_json::Value) -> StatefulSet {
        let mut spec = spec;
        spec["selector"] = json!({"matchLabels": {"a": "b"}});
        spec["serviceName"] = json!("svc");
        spec["template"]["spec"]["containers"] = json!([{"name": "main"}]);
        let object = json!({"metadata": {"name": "s", "namespace": "ns", "uid": "u"}, "spec": spec});
        serde_json::from_value(object).unwrap()
    }

    fn pod(set: &StatefulSet, ordinal: i32, ready: bool, revision: &str) -> Arc<Pod> {
        let mut pod = pod_of(set, ordinal, revision);
        let status = if ready { "True" } else { "False" };
        pod.status = serde_json::from_value(json!({"phase": "Running", "conditions": [
            {"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}))
        .unwrap();
        Arc::new(pod)
    }

    fn at() -> Timestamp {
        "2026-01-01T01:00:00Z".parse().unwrap()
    }

    #[test]
    fn pods_are_made_in_order_and_each_waits_for_the_one_before() {
        let set = set(json!({"replicas": 3}));
        let latest = revision(&set);
        assert_eq!(plan(&set, &[], at()).create, [0]);
        assert!(plan(&set, &[pod(&set, 0, false, &latest)], at()).create.is_empty());
        assert_eq!(plan(&set, &[pod(&set, 0, true, &latest)], at()).create, [1]);
        let parallel = self::set(json!({"replicas": 3, "podManagementPolicy": "Parallel"}));
        assert_eq!(plan(&parallel, &[], at()).create, [0, 1, 2]);
    }

    #[test]
    fn the_last_pod_goes_first_when_there_are_fewer_and_when_the_template_is_new() {
        let set = set(json!({"replicas": 1}));
        let latest = revision(&set);
        let three: Vec<_> = (0..3).map(|ordinal| pod(&set, ordinal, true, &latest)).collect();
        assert_eq!(plan(&set, &three, at()).delete, ["s-2"]);
        let set = self::set(json!({"replicas": 3}));
        let old: Vec<_> = (0..3).map(|ordinal| pod(&set, ordinal, true, "s-old")).collect();
        let planned = plan(&set, &old, at());
        assert_eq!((planned.delete, planned.status.updated_replicas), (vec!["s-2".to_owned()], None));
        let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 3}});
        let kept = self::set(json!({"replicas": 3, "updateStrategy": rolling}));
        assert!(plan(&kept, &old, at()).delete.is_empty());
    }

    #[test]
    fn a_pod_has_its_number_its_name_and_its_claim() {
        let set =
            set(json!({"replicas": 1, "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}]}));
        let pod = pod_of(&set, 2, "r");
        assert_eq!(pod.labels()[POD_INDEX], "2");
        let spec = pod.spec.unwrap();
        assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("s-2"), Some("svc")));
        let claim = &spec.volumes.unwrap()[0];
        assert_eq!(claim.persistent_volume_claim.as_ref().unwrap().claim_name, "data-s-2");
        assert_eq!(claims_of(&set, 2)[0].name_any(), "data-s-2");
    }
}
