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

use std::sync::Arc;
use std::time::Duration;

use futures::stream;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use longboat_api::foreign::leaderworkerset::LeaderWorkerSet;
use longboat_watch::text_of;

use self::group::{Group, Settings};
use self::labels::NAME;
use super::queue::{self, Key, Reconcile, key_of, triggers};
use super::setup::{Caches, Setup};
use super::writes::{delete_pod, merge_status, now};
use crate::events::{Recorder, Severity};

struct LeaderWorkerSets {
    client: Client,
    caches: Caches,
    recorder: Recorder,
}

pub(super) async fn run(Setup { client, caches, recorder, cancel }: Setup) {
    let own = triggers(&caches.leader_worker_sets, |set: &LeaderWorkerSet| [key_of(set)]);
    let pods = triggers(&caches.pods, |pod: &Pod| {
        let name = pod.labels().get(NAME)?.clone();
        Some(Key { namespace: pod.namespace().unwrap_or_default(), name })
    });
    caches.pods.ready().await;
    let sets = LeaderWorkerSets { client, caches, recorder };
    Box::pin(queue::run(sets, stream::select(own, pods), cancel)).await;
}

impl Reconcile for LeaderWorkerSets {
    const NAME: &'static str = "leaderworkerset";

    fn all(&self) -> Vec<Key> {
        self.caches.leader_worker_sets.all().iter().map(|set| key_of(set.as_ref())).collect()
    }

    async fn reconcile(&mut self, key: &Key) -> Result<Option<Duration>, kube::Error> {
        let Some(set) = self.caches.leader_worker_sets.get(&key.namespace, &key.name) else {
            return Ok(None);
        };
        if set.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let settings = Settings::of(&set);
        let (groups, surplus) = group::observe(&set, &settings, self.caches.pods.all());
        for pod in &surplus {
            self.delete(pod).await?;
        }
        let replaced = group::to_replace(&settings, &groups);
        for group in &groups {
            if let Some(why) = group.broken(&settings) {
                self.recreate(&set, group, why).await?;
            } else if replaced == Some(group.index) {
                self.recreate(&set, group, "its templates changed").await?;
            } else {
                self.complete(&set, &settings, group).await?;
            }
        }
        self.write_status(&set, &settings, &groups).await?;
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
        let name = pod.name_any();
        match self.pods(set).create(&PostParams::default(), pod).await {
            Ok(_) => {
                let message = format!("Created pod: {name}");
                self.recorder.publish(set, Severity::Normal, "SuccessfulCreate", message);
                Ok(())
            }
            // The cache is behind, or the previous pod still exists; its deletion will trigger another reconcile.
            Err(kube::Error::Api(answer)) if answer.reason == "AlreadyExists" => Ok(()),
            Err(error) => {
                self.recorder.publish(
                    set,
                    Severity::Warning,
                    "FailedCreate",
                    format!("Error creating: {}", text_of(&error)),
                );
                Err(error)
            }
        }
    }

    async fn recreate(&self, set: &LeaderWorkerSet, group: &Group, why: &str) -> Result<(), kube::Error> {
        let mut logged = false;
        for pod in group.pods().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
            if !logged {
                let message = format!("Recreating group {}: {why}", group.index);
                self.recorder.publish(set, Severity::Normal, "RecreateGroup", message);
                logged = true;
            }
            self.delete(pod).await?;
        }
        Ok(())
    }

    async fn delete(&self, pod: &Arc<Pod>) -> Result<(), kube::Error> {
        if pod.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        delete_pod(&self.client, pod).await?;
        Ok(())
    }

    async fn write_status(
        &self,
        set: &LeaderWorkerSet,
        settings: &Settings,
        groups: &[Group],
    ) -> Result<(), kube::Error> {
        let before = set.status.clone().unwrap_or_default();
        let after = status::of(set, settings, groups, &before, &now());
        if after == before {
            return Ok(());
        }
        merge_status(&self.client, set, after).await?;
        Ok(())
    }

    fn pods(&self, set: &LeaderWorkerSet) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &set.namespace().unwrap_or_default())
    }
}
