//! ScaledObjects. KEDA does not run beside a node, so no trigger is evaluated, and the status of each object says so.

use std::sync::Arc;
use std::time::Duration;

use futures::stream;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use longboat_api::foreign::leaderworkerset::LeaderWorkerSet;
use longboat_api::foreign::scaledobject::{
    ScaledObject, ScaledObjectCondition, ScaledObjectSpec, ScaledObjectStatus,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::Target;
use crate::controllers::queue::{self, Key, Reconcile};
use crate::controllers::{Caches, key_of, triggers};

/// KEDA's default bounds.
const LEAST: i32 = 0;
const MOST: i32 = 100;

struct ScaledObjects {
    client: Client,
    caches: Caches,
}

pub(in crate::controllers) async fn run(client: Client, caches: Caches, cancel: CancellationToken) {
    let own = triggers(&caches.scaled_objects, |object: &ScaledObject| [key_of(object)]);
    let deployments = {
        let all = caches.scaled_objects.clone();
        triggers(&caches.deployments, move |object: &Deployment| {
            scaling(&all.all(), "Deployment", &key_of(object))
        })
    };
    let sets = {
        let all = caches.scaled_objects.clone();
        triggers(&caches.leader_worker_sets, move |object: &LeaderWorkerSet| {
            scaling(&all.all(), "LeaderWorkerSet", &key_of(object))
        })
    };
    let objects = ScaledObjects { client, caches };
    let changes = stream::select(own, stream::select(deployments, sets));
    Box::pin(queue::run(objects, changes, cancel)).await;
}

fn scaling(all: &[Arc<ScaledObject>], kind: &str, key: &Key) -> Vec<Key> {
    let wanted = Target { namespace: key.namespace.clone(), kind: kind.into(), name: key.name.clone() };
    all.iter().filter(|object| target(object) == wanted).map(|object| key_of(object.as_ref())).collect()
}

/// Returns the target. Like KEDA, this assumes a Deployment if no kind is given.
fn target(object: &ScaledObject) -> Target {
    let target = &object.spec.scale_target_ref;
    let kind = if target.kind.is_empty() { "Deployment" } else { &target.kind };
    Target { namespace: object.namespace().unwrap_or_default(), kind: kind.into(), name: target.name.clone() }
}

impl Reconcile for ScaledObjects {
    const NAME: &'static str = "scaledobject";

    fn all(&self) -> Vec<Key> {
        self.caches.scaled_objects.all().iter().map(|object| key_of(object.as_ref())).collect()
    }

    async fn reconcile(&mut self, key: &Key) -> Result<Option<Duration>, kube::Error> {
        let Some(object) = self.caches.scaled_objects.get(&key.namespace, &key.name) else { return Ok(None) };
        if object.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let target = target(&object);
        if let Some(scale) = target.scale(&self.caches) {
            let wanted = within(&object.spec, scale.wanted);
            if wanted != scale.wanted {
                target.resize(&self.client, wanted).await?;
            }
        }
        let after = status(&object.spec);
        if object.status.as_ref() != Some(&after) {
            let api: Api<ScaledObject> = Api::namespaced(self.client.clone(), &key.namespace);
            let patch =
                json!({"metadata": {"resourceVersion": object.metadata.resource_version}, "status": after});
            match api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(_) => {}
                Err(kube::Error::Api(answer)) if answer.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// Returns the nearest allowed number of replicas. The minimum is 1, because without triggers nothing would scale up from
/// zero.
fn within(spec: &ScaledObjectSpec, replicas: i32) -> i32 {
    let least = spec.min_replica_count.unwrap_or(LEAST).max(1);
    if replicas == 0 { 0 } else { replicas.clamp(least, spec.max_replica_count.unwrap_or(MOST).max(least)) }
}

fn status(spec: &ScaledObjectSpec) -> ScaledObjectStatus {
    let condition = |type_: &str, message: String| ScaledObjectCondition {
        type_: type_.into(),
        status: "False".into(),
        reason: "KedaNotRunning".into(),
        message,
    };
    let ready = format!(
        "KEDA does not run on this machine, so no trigger is evaluated and the replicas stay between {} \
         and {}",
        spec.min_replica_count.unwrap_or(LEAST).max(1),
        spec.max_replica_count.unwrap_or(MOST)
    );
    ScaledObjectStatus {
        conditions: vec![condition("Ready", ready), condition("Active", "no trigger is evaluated".into())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_stay_within_bounds_and_never_go_to_zero_by_themselves() {
        let spec = ScaledObjectSpec {
            min_replica_count: Some(0),
            max_replica_count: Some(2),
            ..ScaledObjectSpec::default()
        };
        assert_eq!([0, 1, 2, 5].map(|now| within(&spec, now)), [0, 1, 2, 2]);
        assert!(status(&spec).conditions[0].message.contains("between 1 and 2"));
    }
}
