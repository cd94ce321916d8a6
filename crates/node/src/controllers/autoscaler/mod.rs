//! Autoscalers. Their metrics come from the service's own pods, because there is no Prometheus and no metrics API.
//! The formulas are those of `longboat-autoscale`.

mod horizontal;
mod metrics;
mod queue_metrics;
mod scaled_object;

pub use longboat_autoscale::Sample;
pub use queue_metrics::QueueMetrics;

pub(super) use horizontal::run as run_horizontal;
pub(super) use scaled_object::run as run_scaled_objects;

use futures::{Stream, stream};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use kube::{Api, Client};
use longboat_api::foreign::leaderworkerset::LeaderWorkerSet;
use longboat_autoscale::Scale;
use longboat_key::Key;
use serde_json::json;

use super::queue::{Trigger, triggers};
use super::setup::Caches;
use super::writes::merge;
use crate::cache::{Cache, CachedKind};

/// A workload that is scaled.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    namespace: String,
    kind: String,
    name: String,
}

/// Follows the workloads that the autoscalers of one kind scale.
fn changes<K: CachedKind>(
    caches: &Caches,
    autoscalers: &Cache<K>,
    target: fn(&K) -> Target,
) -> impl Stream<Item = Trigger> + Send + 'static {
    let scaling = |kind: &'static str| {
        let all = autoscalers.clone();
        move |Key { namespace, name }: Key| -> Vec<Key> {
            let workload = Target { namespace: namespace.into(), kind: kind.to_owned(), name: name.into() };
            let all = all.all();
            all.iter()
                .filter(|object| target(object) == workload)
                .map(|object| Key::of_metadata(object.meta()))
                .collect()
        }
    };
    let (of_deployment, of_set) = (scaling("Deployment"), scaling("LeaderWorkerSet"));
    stream::select(
        triggers(&caches.deployments, move |object: &Deployment| of_deployment(Key::of(object))),
        triggers(&caches.leader_worker_sets, move |object: &LeaderWorkerSet| of_set(Key::of(object))),
    )
}

// === impl Target ===

impl Target {
    /// Returns the scale of the target, if the target exists and its kind is supported.
    fn scale(&self, caches: &Caches) -> Option<Scale> {
        match self.kind.as_str() {
            "Deployment" => {
                let live = caches.deployments.get(&self.namespace, &self.name)?;
                let desired = live.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
                let count =
                    |of: fn(&DeploymentStatus) -> Option<i32>| live.status.as_ref().and_then(of).unwrap_or(0);
                Some(Scale {
                    desired,
                    current: count(|status| status.replicas),
                    ready: count(|status| status.ready_replicas),
                })
            }
            "LeaderWorkerSet" => {
                let live = caches.leader_worker_sets.get(&self.namespace, &self.name)?;
                let status = live.status.clone().unwrap_or_default();
                Some(Scale {
                    desired: live.spec.replicas.unwrap_or(1),
                    current: status.replicas.unwrap_or(0),
                    ready: status.ready_replicas.unwrap_or(0),
                })
            }
            _ => None,
        }
    }

    async fn resize(&self, client: &Client, replicas: i32) -> Result<(), kube::Error> {
        let change = json!({"spec": {"replicas": replicas}});
        let (client, namespace) = (client.clone(), &self.namespace);
        if self.kind == "Deployment" {
            merge(&Api::<Deployment>::namespaced(client, namespace), &self.name, change).await?;
        } else {
            merge(&Api::<LeaderWorkerSet>::namespaced(client, namespace), &self.name, change).await?;
        }
        Ok(())
    }
}
