//! What the tree shows, as it changes.

use std::{fmt::Debug, future, hash::Hash, time::Duration};

use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, Client, Resource,
    runtime::{WatchStreamExt, reflector, reflector::Store, watcher},
};
use longboat_api::{foreign::leaderworkerset::LeaderWorkerSet, v1alpha2::LLMInferenceService};
use serde::de::DeserializeOwned;
use tokio::{sync::mpsc, time::Instant};

use super::{PART_OF_A_SERVICE, Scope, Seen};

/// A person cannot read faster; between two pictures changes only pile up.
const FRAME: Duration = Duration::from_millis(30);

/// Watches of everything that the tree shows.
pub(crate) struct Follow {
    services: Store<LLMInferenceService>,
    deployments: Store<Deployment>,
    sets: Store<LeaderWorkerSet>,
    pods: Store<Pod>,
    watches: BoxStream<'static, ()>,
    wake: mpsc::Receiver<()>,
}

// === impl Follow ===

impl Follow {
    pub(crate) fn start(client: &Client, scope: &Scope) -> Self {
        // One place: a change that comes while another waits is shown with it.
        let (changed, wake) = mpsc::channel(1);
        let ours = watcher::Config::default().labels(PART_OF_A_SERVICE);
        let (services, first) = watch(scope.api(client), watcher::Config::default(), &changed);
        let (deployments, second) = watch(scope.api(client), ours.clone(), &changed);
        let (sets, third) = watch(scope.api(client), ours.clone(), &changed);
        let (pods, fourth) = watch(scope.api(client), ours, &changed);
        let watches = futures::stream::select_all([first, second, third, fourth]).boxed();
        Self { services, deployments, sets, pods, watches, wake }
    }

    /// What is known by now.
    pub(crate) fn seen(&self) -> Seen {
        Seen {
            services: self.services.state(),
            deployments: self.deployments.state(),
            sets: self.sets.state(),
            pods: self.pods.state(),
        }
    }

    /// What there is, once all of it is known.
    pub(crate) async fn synced(&mut self) -> Seen {
        let ready = async {
            let _ = self.services.wait_until_ready().await;
            let _ = self.deployments.wait_until_ready().await;
            let _ = self.sets.wait_until_ready().await;
            let _ = self.pods.wait_until_ready().await;
        };
        tokio::select! {
            () = ready => {}
            () = (&mut self.watches).for_each(|()| future::ready(())) => {}
        }
        self.seen()
    }

    /// Waits for a change; false when the deadline comes first.
    pub(crate) async fn changed_by(&mut self, deadline: Instant) -> bool {
        let change = async {
            let changed = self.wake.recv().await.is_some();
            tokio::time::sleep(FRAME).await;
            changed
        };
        tokio::select! {
            changed = change => changed,
            () = (&mut self.watches).for_each(|()| future::ready(())) => false,
            () = tokio::time::sleep_until(deadline) => false,
        }
    }
}

fn watch<K>(
    api: Api<K>,
    config: watcher::Config,
    changed: &mpsc::Sender<()>,
) -> (Store<K>, BoxStream<'static, ()>)
where
    K: Resource<DynamicType: Default + Eq + Hash + Clone>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let (reader, writer) = reflector::store();
    let changed = changed.clone();
    let events = watcher(api, config).default_backoff().reflect(writer);
    let stream = events.map(move |_| {
        let _ = changed.try_send(());
    });
    (reader, stream.boxed())
}
