//! LeaderWorkerSets.

use longboat_api::foreign::leaderworkerset::LeaderWorkerSet;
use serde_json::{Value, json};

use super::{Compare, carry_over_metadata, pods_differ, stored};

impl Compare for LeaderWorkerSet {
    const SPEC: &'static str = "leaderworkerset.v1.LeaderWorkerSetSpec";

    /// As for Deployments: pod specs must be equal, and the metadata of pods may have additional entries.
    fn content_differs(&self, live: &Self) -> bool {
        let (desired, present) = (stored(Self::SPEC, &self.spec), stored(Self::SPEC, &live.spec));
        let (group, live_group) = (&desired["leaderWorkerTemplate"], &present["leaderWorkerTemplate"]);
        group["leaderTemplate"].is_null() != live_group["leaderTemplate"].is_null()
            || ["leaderTemplate", "workerTemplate"]
                .iter()
                .any(|template| pods_differ(&group[template], &live_group[template]))
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
    }

    /// The webhook of LeaderWorkerSets refuses to add, change or remove subgroups. The groups of the old object are deleted
    /// with it, and no new object adopts them.
    fn is_fixed(&self, live: &Self) -> bool {
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

/// How groups are rolled out. The webhook of LeaderWorkerSets fills in the defaults.
fn rollout(spec: &Value) -> Value {
    let config = spec.pointer("/rolloutStrategy/rollingUpdateConfiguration").cloned();
    stored("leaderworkerset.v1.RollingUpdateConfiguration", &config.unwrap_or_else(|| json!({})))
}
