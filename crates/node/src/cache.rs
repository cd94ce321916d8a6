//! Watched objects of one kind, with a signal for each change.

use std::fmt::Debug;
use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher;
use kube::{Client, Resource};
use longboat_watch::Selection;
use serde::de::DeserializeOwned;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

/// A burst of this many changes is passed on one by one; whoever falls further behind looks at everything again.
const CHANGES: usize = 1024;

/// What happened to an object. Receivers read the cache, which is never older than the signal.
#[derive(Debug, Clone)]
pub(crate) enum Change<K> {
    /// The object was created or updated.
    Applied(Arc<K>),
    /// The object is gone; this was its last state.
    Deleted(Arc<K>),
    /// Anything may have changed.
    Resync,
}

/// All objects of one kind, kept up to date by a watch.
#[derive(Debug, Clone)]
pub(crate) struct Cache<K: Resource<DynamicType = ()> + 'static> {
    store: Store<K>,
    changes: broadcast::Sender<Change<K>>,
    /// Whether the first full list is in.
    listed: watch::Receiver<bool>,
}

impl<K> Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// A cache, and the watch that fills it until `cancel`. The caller runs the watch.
    pub(crate) fn new(
        client: &Client,
        cancel: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + use<K>) {
        let (store, mut writer) = reflector::store();
        let changes = broadcast::Sender::new(CHANGES);
        let (is_listed, listed) = watch::channel(false);
        let cache = Self { store, changes: changes.clone(), listed };
        let events = longboat_watch::decoded::<K>(client, &Selection::of::<K>());
        let run = async move {
            let mut events = std::pin::pin!(events.take_until(cancel.cancelled()));
            while let Some(event) = events.next().await {
                let event = match event {
                    Ok(event) => event,
                    Err(error) => {
                        tracing::debug!(%error, kind = %K::kind(&()), "watch interrupted");
                        continue;
                    }
                };
                writer.apply_watcher_event(&event);
                let change = match event {
                    watcher::Event::Apply(object) => Change::Applied(Arc::new(object)),
                    watcher::Event::Delete(object) => Change::Deleted(Arc::new(object)),
                    watcher::Event::InitDone => {
                        is_listed.send_replace(true);
                        Change::Resync
                    }
                    watcher::Event::Init | watcher::Event::InitApply(_) => continue,
                };
                // No subscriber is no error.
                let _ = changes.send(change);
            }
        };
        (cache, run)
    }

    /// The changes from now on, after one [`Change::Resync`] for what was before.
    pub(crate) fn changes(&self) -> impl Stream<Item = Change<K>> + Send + 'static {
        let later = stream::unfold(self.changes.subscribe(), |mut receiver| async move {
            let change = match receiver.recv().await {
                Ok(change) => change,
                Err(broadcast::error::RecvError::Lagged(_)) => Change::Resync,
                Err(broadcast::error::RecvError::Closed) => return None,
            };
            Some((change, receiver))
        });
        stream::once(async { Change::Resync }).chain(later)
    }

    /// All objects.
    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.store.state()
    }

    /// One object; the namespace is empty for kinds that have none.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let reference = ObjectRef::new(name);
        self.store.get(&if namespace.is_empty() { reference } else { reference.within(namespace) })
    }

    /// Waits for the first full list. Unlike the store's own signal, this one wakes everybody who waits.
    pub(crate) async fn ready(&self) {
        // It fails only when the watch has ended, and then there is nothing to wait for.
        let _ = self.listed.clone().wait_for(|listed| *listed).await;
    }
}
