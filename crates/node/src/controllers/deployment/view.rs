//! Values that the controller reads from Deployments and ReplicaSets.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::ResourceExt;
use longboat_api::annotations::LAST_APPLIED;

use crate::controllers::int_or_percent;

/// The number of a rollout, on ReplicaSets and on the Deployment.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// The Deployment's replicas at the last resize of the ReplicaSet. A difference distinguishes scaling from a rollout.
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// The maximum of the Deployment's replicas (with surge) at that time.
pub(super) const MAX: &str = "deployment.kubernetes.io/max-replicas";

/// Annotations of a Deployment that its ReplicaSets do not inherit.
const OWN: &[&str] = &[
    LAST_APPLIED,
    REVISION,
    "deployment.kubernetes.io/revision-history",
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];

/// Far more replicas than a machine runs, and so few that sums of a few such numbers do not overflow.
const MAX_REPLICAS: i32 = 1 << 28;

/// The numbers in a Deployment's spec, with defaults applied and percentages resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) replicas: i32,
    pub(super) recreate: bool,
    /// 0 for Recreate.
    pub(super) max_surge: i32,
    /// For Recreate, and for the Available condition, see [`Settings::of`].
    pub(super) max_unavailable: i32,
    /// Seconds without progress after which the rollout counts as failed; `None` for never.
    pub(super) progress_deadline: Option<i32>,
    pub(super) paused: bool,
}

impl Settings {
    /// Kubernetes: pkg/controller/deployment/util MaxSurge, MaxUnavailable, ResolveFenceposts.
    pub(super) fn of(deployment: &Deployment) -> Self {
        let spec = deployment.spec.clone().unwrap_or_default();
        let replicas = spec.replicas.unwrap_or(1).clamp(0, MAX_REPLICAS);
        let strategy = spec.strategy.unwrap_or_default();
        let recreate = strategy.type_.as_deref() == Some("Recreate");
        let rolling = strategy.rolling_update.unwrap_or_default();
        let surge = int_or_percent::resolve(rolling.max_surge.as_ref(), "25%", replicas, true);
        let unavailable = int_or_percent::resolve(rolling.max_unavailable.as_ref(), "25%", replicas, false);
        let (max_surge, max_unavailable) = match (recreate, surge, unavailable) {
            (true, ..) => (0, 0),
            // If both are zero, the rollout could never proceed.
            (false, 0, 0) => (0, 1),
            (false, surge, unavailable) => (surge.min(MAX_REPLICAS), unavailable),
        };
        Self {
            replicas,
            recreate,
            max_surge,
            max_unavailable: max_unavailable.min(replicas),
            progress_deadline: spec.progress_deadline_seconds.filter(|seconds| *seconds < i32::MAX),
            paused: spec.paused == Some(true),
        }
    }
}

pub(super) fn replicas(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

pub(super) fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

pub(super) fn revision(set: &ReplicaSet) -> i64 {
    number(set, REVISION).unwrap_or(0)
}

pub(super) fn number(set: &ReplicaSet, annotation: &str) -> Option<i64> {
    set.annotations().get(annotation)?.parse().ok()
}

pub(super) fn highest_revision(sets: &[ReplicaSet]) -> i64 {
    sets.iter().map(revision).max().unwrap_or(0)
}

/// Returns the annotations that a ReplicaSet inherits from its Deployment.
pub(super) fn inherited_annotations(deployment: &Deployment) -> BTreeMap<String, String> {
    let annotations = deployment.annotations().iter().filter(|(key, _)| !OWN.contains(&key.as_str()));
    annotations.map(|(key, value)| (key.clone(), value.clone())).collect()
}
