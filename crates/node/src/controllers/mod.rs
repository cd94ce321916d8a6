//! The parts of a cluster besides kubelets: controllers for workloads, endpoints and namespaces, a scheduler, and a proxy
//! for cluster IPs.
//!
//! Each controller is level-triggered: a watch event only names the object to reconcile, and the actions follow from the
//! caches alone. Each controller writes only differences. So a reconcile without changes writes nothing, also after a
//! restart.

mod autoscaler;
mod claims;
mod deployment;
mod endpointslice;
mod int_or_percent;
mod job;
mod leader_worker_set;
mod namespace;
mod queue;
mod replicaset;
mod scheduler;
mod selector;
mod service_proxy;
mod stateful_set;
mod unsupported;

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use longboat_api::foreign::leaderworkerset::LeaderWorkerSet;
use longboat_api::foreign::scaledobject::ScaledObject;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use autoscaler::{QueueMetrics, Sample};

use crate::cache::{Cache, CachedKind, Change};
use crate::events::Recorder;
pub(crate) use queue::sleep_until;
use queue::{Key, Trigger};

/// The caches of the watched kinds.
#[derive(Debug, Clone)]
pub(crate) struct Caches {
    pub(crate) pods: Cache<Pod>,
    pub(crate) replica_sets: Cache<ReplicaSet>,
    pub(crate) deployments: Cache<Deployment>,
    pub(crate) leader_worker_sets: Cache<LeaderWorkerSet>,
    pub(crate) autoscalers: Cache<HorizontalPodAutoscaler>,
    pub(crate) scaled_objects: Cache<ScaledObject>,
    pub(crate) services: Cache<Service>,
    pub(crate) slices: Cache<EndpointSlice>,
    pub(crate) namespaces: Cache<Namespace>,
    pub(crate) jobs: Cache<Job>,
    pub(crate) stateful_sets: Cache<StatefulSet>,
    pub(crate) claims: Cache<PersistentVolumeClaim>,
    pub(crate) nodes: Cache<Node>,
}

/// Facts about the machine that controllers need.
pub(crate) struct Machine<'a> {
    /// The name of the Node object.
    pub(crate) node: &'a str,
    /// The CA certificate of the API server.
    pub(crate) ca_pem: Option<String>,
    /// The folder that holds one folder of claims per namespace.
    pub(crate) claims_dir: &'a Path,
    /// Reports for which nodes the node stands in.
    pub(crate) stand_ins: scheduler::StandIns,
    /// How many requests wait for workloads without replicas.
    pub(crate) queue: QueueMetrics,
}

/// What a controller that publishes events works with.
struct Setup {
    client: Client,
    caches: Caches,
    recorder: Recorder,
    /// Ends the controller.
    cancel: CancellationToken,
}

/// Spawns every controller in `tasks`.
pub(crate) fn spawn(
    tasks: &mut JoinSet<()>,
    client: &Client,
    caches: &Caches,
    recorder: &Recorder,
    machine: Machine<'_>,
    cancel: &CancellationToken,
) {
    let Machine { node, ca_pem, claims_dir, stand_ins, queue } = machine;
    let setup = |source: &'static str| Setup {
        client: client.clone(),
        caches: caches.clone(),
        recorder: recorder.of(source),
        cancel: cancel.clone(),
    };
    tasks.spawn(deployment::run(setup("deployment-controller")));
    tasks.spawn(replicaset::run(setup("replicaset-controller")));
    tasks.spawn(job::run(setup("job-controller")));
    tasks.spawn(stateful_set::run(setup("statefulset-controller")));
    tasks.spawn(unsupported::run(setup("longboat")));
    tasks.spawn(claims::run(setup("persistentvolume-controller"), claims_dir.to_owned()));
    tasks.spawn(leader_worker_set::run(setup("leaderworkerset")));
    tasks.spawn(autoscaler::run_horizontal(setup("horizontal-pod-autoscaler"), queue.clone()));
    tasks.spawn(autoscaler::run_scaled_objects(client.clone(), caches.clone(), queue, cancel.clone()));
    tasks.spawn(endpointslice::run(client.clone(), caches.clone(), cancel.clone()));
    tasks.spawn(namespace::run(client.clone(), caches.clone(), ca_pem, cancel.clone()));
    tasks.spawn(scheduler::run(setup("default-scheduler"), node.to_owned(), stand_ins));
    tasks.spawn(service_proxy::run(caches.clone(), cancel.clone()));
}

/// Turns changes of one kind into the keys that a controller must reconcile.
fn triggers<K, I>(
    cache: &Cache<K>,
    keys: impl Fn(&K) -> I + Send + 'static,
) -> impl Stream<Item = Trigger> + Send + 'static
where
    K: CachedKind,
    I: IntoIterator<Item = Key>,
    I::IntoIter: Send,
{
    cache.changes().flat_map(move |change| {
        let triggers: Vec<Trigger> = match change {
            Change::Applied(object) | Change::Deleted(object) => {
                keys(&object).into_iter().map(Trigger::One).collect()
            }
            Change::Resync => vec![Trigger::All],
        };
        futures::stream::iter(triggers)
    })
}

/// Returns the pods that an object controls.
fn pods_of<K: Resource>(pods: &Cache<Pod>, owner: &K) -> Vec<Arc<Pod>> {
    let owner = owner.meta();
    let mut pods = pods.all();
    pods.retain(|pod| {
        pod.metadata.namespace == owner.namespace
            && controller_of(pod.as_ref()).is_some_and(|found| Some(&found.uid) == owner.uid.as_ref())
    });
    pods
}

/// Returns `None` if the API server refused with one of these codes: others may have deleted or changed the object meanwhile, and
/// their change brings the next reconcile.
fn tolerate<T>(result: Result<T, kube::Error>, codes: &[u16]) -> Result<Option<T>, kube::Error> {
    match result {
        Err(kube::Error::Api(answer)) if codes.contains(&answer.code) => Ok(None),
        other => other.map(Some),
    }
}

/// Deletes a pod, and no other pod that has its name by now. Returns whether there was something to delete.
async fn delete_pod(client: &Client, pod: &Pod) -> Result<bool, kube::Error> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let preconditions = Some(Preconditions { uid: pod.uid(), resource_version: None });
    let params = DeleteParams { preconditions, ..DeleteParams::default() };
    Ok(tolerate(api.delete(&pod.name_any(), &params).await, &[404, 409])?.is_some())
}

/// Merges a status into an object. Returns whether the object was still there. A status that was computed from an old
/// revision is refused, and the next event brings the new one.
async fn merge_status<K>(client: &Client, object: &K, status: impl Serialize) -> Result<bool, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    let patch = json!({"metadata": {"resourceVersion": object.meta().resource_version}, "status": status});
    let answer = api.patch_status(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await;
    Ok(tolerate(answer, &[404])?.is_some())
}

/// Returns the key of an object.
fn key_of<K: Resource>(object: &K) -> Key {
    let meta = object.meta();
    Key { namespace: meta.namespace.clone().unwrap_or_default(), name: meta.name.clone().unwrap_or_default() }
}

/// Returns the reference to the object's controller.
fn controller_of<K: Resource>(object: &K) -> Option<&OwnerReference> {
    object.meta().owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Returns the key of the object's controller, if the controller has this kind.
fn owner_key<K: Resource>(object: &K, kind: &str) -> Option<Key> {
    let owner = controller_of(object).filter(|owner| owner.kind == kind)?;
    Some(Key { namespace: object.meta().namespace.clone().unwrap_or_default(), name: owner.name.clone() })
}

/// Returns a reference that makes `owner` the controller of another object.
fn control_by<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.meta().name.clone().unwrap_or_default(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// A status for a merge patch, which does not remove fields that it omits: absent ones of these fields are set to null.
fn with_nulls(status: impl Serialize, fields: &[&str]) -> Value {
    let mut status = json!(status);
    for field in fields {
        if status.get(field).is_none() {
            status[*field] = Value::Null;
        }
    }
    status
}

/// Whether all containers of a pod have ended for good.
fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether a pod runs or will run.
fn is_active(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none() && !has_ended(pod)
}

/// Returns the current time in whole seconds, the precision of the API.
fn now() -> Time {
    let now = Timestamp::now();
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// Returns since when the pod's Ready condition is true, or `None` if it is not.
fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready =
        conditions.iter().find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
    Some(ready.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0))
}
