//! The parts of a cluster besides kubelets: controllers for workloads, endpoints and namespaces, a scheduler, and a proxy
//! for cluster IPs.
//!
//! Each controller is level-triggered: a watch event only names the object to reconcile, and the actions follow from the
//! caches alone. Each controller writes only differences. So a reconcile without changes writes nothing, also after a
//! restart.

mod adoption;
mod autoscaler;
mod claims;
mod deployment;
mod disruption;
mod endpointslice;
mod int_or_percent;
mod job;
mod leader_worker_set;
mod namespace;
mod owners;
mod pods;
mod queue;
mod replicaset;
mod scheduler;
mod selector;
mod service_proxy;
mod setup;
mod stateful_set;
mod unsupported;
mod writes;

use std::path::Path;

use kube::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use autoscaler::{QueueMetrics, Sample};

use crate::events::Recorder;
pub(crate) use queue::sleep_until;
pub(crate) use setup::Caches;
use setup::Setup;
pub(crate) use writes::{api_beside, merge, tolerate};

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
    tasks.spawn(disruption::run(setup("controllermanager")));
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
