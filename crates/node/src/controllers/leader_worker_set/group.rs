//! The groups of a LeaderWorkerSet, and which of them must be deleted. Pure functions.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use longboat_api::foreign::leaderworkerset::LeaderWorkerSet;
use sha2::{Digest, Sha256};

use super::labels::{GROUP_INDEX, NAME, REVISION, WORKER_INDEX};
use crate::controllers::int_or_percent;
use crate::controllers::owners::{controller_of, controls};
use crate::controllers::pods::{has_ended, ready_since, restarts};

/// The desired state of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) replicas: i32,
    /// The number of pods in a group, the leader included.
    pub(super) size: i32,
    pub(super) revision: String,
    /// Whether the restart of one pod deletes its whole group.
    recreate: bool,
    /// How many groups an update may make unavailable at once.
    max_unavailable: i32,
}

/// One group.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) index: i32,
    pub(super) leader: Option<Arc<Pod>>,
    /// The workers by their index.
    pub(super) workers: BTreeMap<i32, Arc<Pod>>,
}

// === impl Settings ===

impl Settings {
    pub(super) fn of(set: &LeaderWorkerSet) -> Self {
        let template = &set.spec.leader_worker_template;
        let replicas = set.spec.replicas.unwrap_or(1).max(0);
        let made_of = (&template.leader_template, &template.worker_template, template.size);
        let text = serde_json::to_vec(&made_of).unwrap_or_default();
        let rolling = set.spec.rollout_strategy.as_ref();
        let unavailable = rolling
            .and_then(|strategy| strategy.rolling_update_configuration.as_ref())
            .and_then(|rolling| rolling.max_unavailable.as_ref());
        Self {
            replicas,
            size: template.size.unwrap_or(1).max(1),
            revision: {
                let hash = Sha256::digest(text);
                format!("{:08x}", u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]))
            },
            recreate: template
                .restart_policy
                .as_deref()
                .is_none_or(|policy| policy == "RecreateGroupOnPodRestart"),
            max_unavailable: int_or_percent::resolve(unavailable, "1", replicas, false).max(1),
        }
    }
}

/// Sorts a set's pods into groups. Returns a group for each desired index, and the pods that belong to no group.
pub(super) fn observe(
    set: &LeaderWorkerSet,
    settings: &Settings,
    pods: Vec<Arc<Pod>>,
) -> (Vec<Group>, Vec<Arc<Pod>>) {
    let mut groups: Vec<Group> =
        (0..settings.replicas).map(|index| Group { index, ..Group::default() }).collect();
    let mut surplus = Vec::new();
    let mut workers = Vec::new();
    let mine = |pod: &Arc<Pod>| {
        pod.metadata.namespace == set.metadata.namespace
            && pod.labels().get(NAME) == set.metadata.name.as_ref()
    };
    for pod in pods.into_iter().filter(mine) {
        let (group, index) = (number(&pod, GROUP_INDEX), number(&pod, WORKER_INDEX));
        let Some(owner) = controller_of(pod.as_ref()) else { continue };
        match (group.and_then(|group| usize::try_from(group).ok()), index) {
            (Some(group), Some(0)) if Some(&owner.uid) == set.metadata.uid.as_ref() => {
                match groups.get_mut(group) {
                    Some(group) => group.leader = Some(pod),
                    None => surplus.push(pod),
                }
            }
            (Some(group), Some(index)) if owner.kind == "Pod" => workers.push((group, index, pod)),
            _ => {}
        }
    }
    for (group, index, pod) in workers {
        let fits = groups.get_mut(group).filter(|group| {
            index < settings.size
                && group.leader.as_ref().is_some_and(|leader| controls(leader.as_ref(), pod.as_ref()))
        });
        match fits {
            Some(group) => {
                group.workers.insert(index, pod);
            }
            // The pod's leader is gone, or its group is no longer wanted.
            None => surplus.push(pod),
        }
    }
    (groups, surplus)
}

/// Returns the group to delete because its templates are outdated: one at a time, the last group first. Returns `None` while
/// the maximum number of groups is unavailable.
pub(super) fn to_replace(settings: &Settings, groups: &[Group]) -> Option<i32> {
    let outdated =
        || groups.iter().rev().filter(|group| group.leader.is_some() && !group.is_current(settings));
    // Deleting a group that is not ready costs nothing.
    if let Some(group) = outdated().find(|group| !group.is_ready(settings)) {
        return Some(group.index);
    }
    let missing = groups.iter().filter(|group| !group.is_ready(settings)).count();
    let may_go = i32::try_from(missing).is_ok_and(|missing| missing < settings.max_unavailable);
    outdated().next().filter(|_| may_go).map(|group| group.index)
}

// === impl Group ===

impl Group {
    pub(super) fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.leader.iter().chain(self.workers.values())
    }

    /// The indexes of the missing workers. They may be very many.
    pub(super) fn missing(&self, settings: &Settings) -> impl Iterator<Item = i32> {
        (1..settings.size).filter(|index| !self.workers.contains_key(index))
    }

    /// Whether the group was created from the current templates.
    pub(super) fn is_current(&self, settings: &Settings) -> bool {
        let revision = self.leader.as_ref().and_then(|leader| leader.labels().get(REVISION));
        revision == Some(&settings.revision)
    }

    /// Whether every pod of the group is ready.
    pub(super) fn is_ready(&self, settings: &Settings) -> bool {
        self.leader.is_some()
            && self.missing(settings).next().is_none()
            && self.pods().all(|pod| pod.metadata.deletion_timestamp.is_none() && ready_since(pod).is_some())
    }

    /// Returns why the group must be recreated, or `None` if it is intact.
    pub(super) fn broken(&self, settings: &Settings) -> Option<&'static str> {
        // A pod that somebody deletes ends, too, before it is gone.
        if self.pods().any(|pod| has_ended(pod) && pod.metadata.deletion_timestamp.is_none()) {
            return Some("one of its pods ended");
        }
        if !settings.recreate {
            return None;
        }
        if self.pods().any(|pod| pod.metadata.deletion_timestamp.is_some()) {
            return Some("one of its pods was deleted");
        }
        self.pods().any(|pod| restarts(pod) > 0).then_some("one of its pods restarted")
    }
}

fn number(pod: &Pod, label: &str) -> Option<i32> {
    pod.labels().get(label)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ContainerStatus;
    use serde_json::{Value, json};

    use super::*;

    fn set(replicas: i32, size: i32) -> LeaderWorkerSet {
        serde_json::from_value(json!({
            "metadata": {"name": "s", "namespace": "ns", "uid": "u"},
            "spec": {"replicas": replicas, "leaderWorkerTemplate": {
                "size": size, "workerTemplate": {"spec": {"containers": []}}}},
        }))
        .unwrap()
    }

    fn pod(group: i32, index: i32, owner: &Value, revision: &str, ready: bool) -> Arc<Pod> {
        let uid = format!("{group}-{index}");
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {
                    "name": format!("s-{uid}"), "namespace": "ns", "uid": uid,
                    "labels": {NAME: "s", GROUP_INDEX: group.to_string(), WORKER_INDEX: index.to_string(),
                        REVISION: revision},
                    "ownerReferences": [owner],
                },
                "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
            }))
            .unwrap(),
        )
    }

    fn by_set() -> Value {
        json!({"apiVersion": "x/v1", "kind": "LeaderWorkerSet", "name": "s", "uid": "u", "controller": true})
    }

    fn by_leader(group: i32) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "name": "l", "uid": format!("{group}-0"), "controller": true})
    }

    #[test]
    fn pods_are_sorted_into_groups_and_what_fits_nowhere_goes() {
        let set = set(1, 2);
        let settings = Settings::of(&set);
        let revision = settings.revision.as_str();
        let pods = vec![
            pod(0, 0, &by_set(), revision, true),
            pod(0, 1, &by_leader(0), revision, true),
            pod(1, 0, &by_set(), revision, true),
            pod(0, 2, &by_leader(0), revision, true),
            pod(0, 1, &by_leader(7), revision, true),
        ];
        let (groups, surplus) = observe(&set, &settings, pods);
        assert!(groups[0].is_ready(&settings) && groups[0].is_current(&settings));
        assert_eq!(groups[0].broken(&settings), None);
        let names: Vec<_> = surplus.iter().map(|pod| pod.name_any()).collect();
        assert_eq!(names, ["s-1-0", "s-0-2", "s-0-1"]);
    }

    #[test]
    fn a_change_replaces_the_last_group_first_and_only_while_the_others_serve() {
        let set = set(2, 1);
        let settings = Settings::of(&set);
        let at = |ready: [bool; 2], revisions: [&str; 2]| {
            let pods = (0..2)
                .map(|group: i32| {
                    let index = usize::try_from(group).unwrap();
                    pod(group, 0, &by_set(), revisions[index], ready[index])
                })
                .collect();
            to_replace(&settings, &observe(&set, &settings, pods).0)
        };
        let new = settings.revision.as_str();
        assert_eq!(at([true, true], ["old", "old"]), Some(1));
        assert_eq!(at([true, false], ["old", new]), None);
        assert_eq!(at([true, true], ["old", new]), Some(0));
        assert_eq!(at([true, true], [new, new]), None);
        assert_eq!(at([false, true], ["old", "old"]), Some(0));
    }

    #[test]
    fn a_group_goes_when_one_of_its_pods_ended_or_restarted() {
        let set = set(1, 1);
        let settings = Settings { recreate: false, ..Settings::of(&set) };
        let broken = |leader: &Pod, settings: &Settings| {
            observe(&set, settings, vec![Arc::new(leader.clone())]).0[0].broken(settings)
        };
        let mut leader = pod(0, 0, &by_set(), &settings.revision, true).as_ref().clone();
        leader.status.as_mut().unwrap().phase = Some("Failed".to_owned());
        assert_eq!(broken(&leader, &settings), Some("one of its pods ended"));
        leader.metadata.deletion_timestamp = Some(crate::controllers::writes::now());
        assert_eq!(broken(&leader, &settings), None, "its deletion ends it, too");
        let mut leader = pod(0, 0, &by_set(), &settings.revision, true).as_ref().clone();
        leader.status.as_mut().unwrap().container_statuses =
            Some(vec![ContainerStatus { restart_count: 1, ..ContainerStatus::default() }]);
        assert_eq!(broken(&leader, &Settings::of(&set)), Some("one of its pods restarted"));
    }
}
