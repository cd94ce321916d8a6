//! LeaderWorkerSets.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use longboat_api::foreign::leaderworkerset::{
    LeaderWorkerSet, LeaderWorkerSetSpec, RollingUpdateConfiguration,
};

use super::{Compare, carry_over_metadata, contained, metadata_differs, same};
use crate::server_defaults;

impl Compare for LeaderWorkerSet {
    /// As for Deployments: pod specs must be equal, and the metadata of pods may have additional entries.
    fn differs(&self, live: &Self) -> bool {
        let complete = |object: &Self| {
            let mut spec = object.spec.clone();
            server_defaults::leader_worker_set(&mut spec);
            spec
        };
        let (desired, present) = (complete(self), complete(live));
        let (wanted, found) = (&desired.leader_worker_template, &present.leader_worker_template);
        metadata_differs(&self.metadata, &live.metadata)
            || wanted.leader_template.is_some() != found.leader_template.is_some()
            || wanted.leader_template.iter().zip(&found.leader_template).any(|(a, b)| template_differs(a, b))
            || template_differs(&wanted.worker_template, &found.worker_template)
            || wanted.size != found.size
            || wanted.restart_policy != found.restart_policy
            || wanted.sub_group_policy != found.sub_group_policy
            || desired.replicas != present.replicas
            || desired.startup_policy != present.startup_policy
            || rollout(&desired) != rollout(&present)
    }

    /// The webhook of LeaderWorkerSets fills in the network configuration.
    fn carry_over(&mut self, live: &Self) {
        carry_over_metadata(&mut self.metadata, &live.metadata);
        if self.spec.network_config.is_none() {
            self.spec.network_config.clone_from(&live.spec.network_config);
        }
    }

    fn fill_in_defaults(&mut self) {
        server_defaults::leader_worker_set(&mut self.spec);
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

fn template_differs(desired: &PodTemplateSpec, live: &PodTemplateSpec) -> bool {
    let metadata = |template: &PodTemplateSpec| template.metadata.clone().unwrap_or_default();
    let (wanted, found) = (metadata(desired), metadata(live));
    !contained(wanted.labels.as_ref(), found.labels.as_ref())
        || !contained(wanted.annotations.as_ref(), found.annotations.as_ref())
        || (desired.spec != live.spec && !same(&desired.spec, &live.spec))
}

/// How groups are rolled out. The webhook of LeaderWorkerSets fills in the defaults.
fn rollout(spec: &LeaderWorkerSetSpec) -> RollingUpdateConfiguration {
    let said =
        spec.rollout_strategy.as_ref().and_then(|rollout| rollout.rolling_update_configuration.clone());
    let mut rollout = said.unwrap_or_default();
    server_defaults::rolling_update(&mut rollout);
    rollout
}
