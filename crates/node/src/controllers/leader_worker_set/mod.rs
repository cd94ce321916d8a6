//! LeaderWorkerSets: groups of pods that start, serve and stop together.
//!
//! LWS: pkg/controllers. There are two differences, because a node has no DNS and no StatefulSets for groups. First,
//! `LWS_LEADER_ADDRESS` is the IP address of the leader's pod, so the workers are created once the leader has an address.
//! Second, no group is created beyond the desired number, so an update replaces one group after the other (`maxSurge` has no
//! effect).

mod group;
mod labels;
mod pods;
mod status;

use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};
use longboat_api::foreign::leaderworkerset::LeaderWorkerSet;
use longboat_key::{Key, Name, Namespace};

use self::group::{Group, Settings};
use self::labels::NAME;
use super::queue::{self, Again, Reconcile, triggers};
use super::setup::{Caches, Setup};
use super::writes::{create_pod, delete_pod, merge_status, now, tolerate};
use crate::events::{Recorder, Severity};

struct LeaderWorkerSets {
    client: Client,
    caches: Caches,
    recorder: Recorder,
}

pub(super) async fn run(Setup { client, caches, recorder, cancel }: Setup) {
    let pods = triggers(&caches.pods, |pod: &Pod| {
        let name = pod.labels().get(NAME)?.clone();
        Some(Key::new(Namespace::of(&pod.metadata), Name(&name)))
    });
    caches.pods.ready().await;
    let objects = caches.leader_worker_sets.clone();
    Box::pin(queue::run(LeaderWorkerSets { client, caches, recorder }, objects, pods, cancel)).await;
}

impl Reconcile<LeaderWorkerSet> for LeaderWorkerSets {
    const NAME: &'static str = "leaderworkerset";

    async fn reconcile(&mut self, _: &Key, set: &LeaderWorkerSet) -> Again {
        let settings = Settings::of(set);
        let (groups, surplus) = group::observe(set, &settings, self.caches.pods.all());
        for pod in &surplus {
            delete_pod(&self.client, pod).await?;
        }
        let replaced = group::to_replace(&settings, &groups);
        for group in &groups {
            if let Some(why) = group.broken(&settings) {
                self.recreate(set, group, why).await?;
            } else if replaced == Some(group.index) {
                self.recreate(set, group, "its templates changed").await?;
            } else {
                self.complete(set, &settings, group).await?;
            }
        }
        let before = set.status.clone().unwrap_or_default();
        let after = status::of(set, &settings, &groups, &before, &now());
        if after != before {
            merge_status(&self.client, set, after).await?;
        }
        Ok(None)
    }
}

impl LeaderWorkerSets {
    /// Creates the missing pods of a group.
    async fn complete(
        &self,
        set: &LeaderWorkerSet,
        settings: &Settings,
        group: &Group,
    ) -> Result<(), kube::Error> {
        let Some(leader) = &group.leader else {
            return self.create(set, &pods::leader(set, settings, group.index)).await;
        };
        let address = leader.status.as_ref().and_then(|status| status.pod_ip.clone());
        let Some(address) = address.filter(|_| leader.metadata.deletion_timestamp.is_none()) else {
            return Ok(());
        };
        for index in group.missing(settings) {
            self.create(set, &pods::worker(set, settings, leader, &address, group.index, index)).await?;
        }
        Ok(())
    }

    async fn create(&self, set: &LeaderWorkerSet, pod: &Pod) -> Result<(), kube::Error> {
        tolerate(create_pod(&self.client, &self.recorder, set, pod).await, &[409])?;
        Ok(())
    }

    async fn recreate(&self, set: &LeaderWorkerSet, group: &Group, why: &str) -> Result<(), kube::Error> {
        let mut left: Vec<_> = group.pods().collect();
        left.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        if !left.is_empty() {
            let message = format!("Recreating group {}: {why}", group.index);
            self.recorder.publish(set, Severity::Normal, "RecreateGroup", message);
        }
        for pod in left {
            delete_pod(&self.client, pod).await?;
        }
        Ok(())
    }
}
