//! Binds every pod that has no node yet to the only one there is.
//!
//! Node selectors, affinity, taints and resource requests are not looked at: there is nothing to choose between.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

use super::queue::{self, Key, Reconcile};
use super::{Caches, key_of, triggers};
use crate::cache::Cache;
use crate::events::{Component, Recorder, Severity, reference};

struct Scheduler {
    client: Client,
    pods: Cache<Pod>,
    recorder: Recorder,
    node: String,
}

pub(super) async fn run(
    client: Client,
    caches: Caches,
    recorder: Recorder,
    node: String,
    cancel: CancellationToken,
) {
    let changes = triggers(&caches.pods, |pod: &Pod| is_unbound(pod).then(|| key_of(pod)));
    let scheduler = Scheduler { client, pods: caches.pods, recorder, node };
    queue::run(scheduler, changes, cancel).await;
}

fn is_unbound(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    let unassigned = spec.and_then(|spec| spec.node_name.as_deref()).is_none_or(str::is_empty);
    let gated =
        spec.is_some_and(|spec| spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty()));
    unassigned && !gated && pod.metadata.deletion_timestamp.is_none()
}

impl Reconcile for Scheduler {
    const NAME: &'static str = "scheduler";

    fn all(&self) -> Vec<Key> {
        self.pods.all().iter().filter(|pod| is_unbound(pod)).map(|pod| key_of(pod.as_ref())).collect()
    }

    async fn reconcile(&mut self, key: &Key) -> Result<Option<Duration>, kube::Error> {
        let Some(pod) = self.pods.get(&key.namespace, &key.name).filter(|pod| is_unbound(pod)) else {
            return Ok(None);
        };
        let binding = Binding {
            metadata: ObjectMeta {
                name: Some(key.name.clone()),
                namespace: Some(key.namespace.clone()),
                uid: pod.metadata.uid.clone(),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                kind: Some("Node".to_owned()),
                name: Some(self.node.clone()),
                ..ObjectReference::default()
            },
        };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let bound: Result<serde_json::Value, _> =
            api.create_subresource("binding", &key.name, &PostParams::default(), &binding).await;
        match bound {
            Ok(_) => {}
            // Bound already, or deleted: the cache is behind.
            Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => return Ok(None),
            Err(error) => return Err(error),
        }
        self.recorder.record(
            reference(pod.as_ref()),
            Component::Scheduler,
            Severity::Normal,
            "Scheduled",
            format!("Successfully assigned {}/{} to {}", key.namespace, key.name, self.node),
        );
        Ok(None)
    }
}
