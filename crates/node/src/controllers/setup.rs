//! What controllers work with.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use longboat_api::foreign::leaderworkerset::LeaderWorkerSet;
use longboat_api::foreign::scaledobject::ScaledObject;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cache::{Cache, CachedKind};
use crate::events::Recorder;

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

/// What a controller that publishes events works with.
pub(super) struct Setup {
    pub(super) client: Client,
    pub(super) caches: Caches,
    pub(super) recorder: Recorder,
    /// Ends the controller.
    pub(super) cancel: CancellationToken,
}

impl Caches {
    /// Creates the caches, and spawns their watches in `tasks`.
    pub(crate) fn watch(client: &Client, cancel: &CancellationToken, tasks: &mut JoinSet<()>) -> Self {
        fn cache<K: CachedKind>(
            client: &Client,
            cancel: &CancellationToken,
            tasks: &mut JoinSet<()>,
        ) -> Cache<K> {
            let (cache, run) = Cache::new(client, cancel.clone());
            tasks.spawn(run);
            cache
        }
        Self {
            pods: cache(client, cancel, tasks),
            replica_sets: cache(client, cancel, tasks),
            deployments: cache(client, cancel, tasks),
            leader_worker_sets: cache(client, cancel, tasks),
            autoscalers: cache(client, cancel, tasks),
            scaled_objects: cache(client, cancel, tasks),
            services: cache(client, cancel, tasks),
            slices: cache(client, cancel, tasks),
            namespaces: cache(client, cancel, tasks),
            jobs: cache(client, cancel, tasks),
            stateful_sets: cache(client, cancel, tasks),
            claims: cache(client, cancel, tasks),
            nodes: cache(client, cancel, tasks),
        }
    }
}
