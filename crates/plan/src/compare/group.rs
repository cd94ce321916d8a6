//! LeaderWorkerSets.

use longboat_api::foreign::leaderworkerset::LeaderWorkerSet;
use serde_json::{Value, json};

use super::{Compare, carry_over_metadata, keep_pod_metadata, pods_differ, stored};

impl Compare for LeaderWorkerSet {
    const SPEC: &'static str = "leaderworkerset.v1.LeaderWorkerSetSpec";

    /// As for Deployments: pod specs must be equal, and the metadata of pods may have additional entries.
    fn content_differs(&self, live: &Self) -> bool {
        let (desired, present) = (stored(Self::SPEC, &self.spec), stored(Self::SPEC, &live.spec));
        let (group, live_group) = (&desired["leaderWorkerTemplate"], &present["leaderWorkerTemplate"]);
        templates_differ(group, live_group)
            || ["size", "restartPolicy", "subGroupPolicy"]
                .iter()
                .any(|field| group[field] != live_group[field])
            || ["replicas", "startupPolicy"].iter().any(|field| desired[field] != present[field])
            || rollout(&desired) != rollout(&present)
    }

    /// The webhook of LeaderWorkerSets fills in the network configuration.
    fn carry_over(&mut self, live: &Self) {
        carry_over_metadata(&mut self.metadata, &live.metadata);
        if self.spec.network_config.is_none() {
            self.spec.network_config.clone_from(&live.spec.network_config);
        }
        let [desired, present] = [&*self, live].map(|object| stored(Self::SPEC, &object.spec));
        if templates_differ(&desired["leaderWorkerTemplate"], &present["leaderWorkerTemplate"]) {
            return;
        }
        let (group, live) = (&mut self.spec.leader_worker_template, &live.spec.leader_worker_template);
        keep_pod_metadata(&mut group.worker_template, &live.worker_template);
        if let (Some(leader), Some(live)) = (&mut group.leader_template, &live.leader_template) {
            keep_pod_metadata(leader, live);
        }
    }

    /// The webhook of LeaderWorkerSets refuses to add, change or remove subgroups. The groups of the old object are deleted
    /// with it, and no new object adopts them.
    fn must_be_recreated(&self, live: &Self) -> bool {
        let parts = |object: &Self| {
            let policy = object.spec.leader_worker_template.sub_group_policy.as_ref();
            policy.map(|policy| policy.sub_group_size)
        };
        parts(self) != parts(live)
    }

    fn accounts(&self) -> Vec<&str> {
        let template = &self.spec.leader_worker_template;
        let pods = template.leader_template.iter().chain([&template.worker_template]);
        pods.filter_map(|pod| pod.spec.as_ref()?.service_account_name.as_deref()).collect()
    }
}

/// Whether the pod templates of two stored groups differ. A change of one rolls the pods of both.
fn templates_differ(group: &Value, live: &Value) -> bool {
    let templates = ["leaderTemplate", "workerTemplate"];
    group["leaderTemplate"].is_null() != live["leaderTemplate"].is_null()
        || templates.iter().any(|template| pods_differ(&group[template], &live[template]))
}

/// How groups are rolled out. The webhook of LeaderWorkerSets fills in the defaults.
fn rollout(spec: &Value) -> Value {
    let config = spec.pointer("/rolloutStrategy/rollingUpdateConfiguration").cloned();
    stored("leaderworkerset.v1.RollingUpdateConfiguration", &config.unwrap_or_else(|| json!({})))
}
