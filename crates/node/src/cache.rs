//! An informer-like cache of the objects of one kind, with a signal for each change.

use std::fmt::Debug;
use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher;
use kube::{Client, Resource};
use longboat_watch::{Decode, Selection, text_of_watch};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

/// How many changes a receiver may fall behind. A receiver that falls further behind gets a [`Change::Resync`].
const MAX_CHANGES_BEHIND: usize = 1024;

/// A change of an object. Receivers read the cache, which is never older than the signal.
#[derive(Debug, Clone)]
pub(crate) enum Change<K> {
    /// The object was created or updated.
    Applied(Arc<K>),
    /// The object was deleted; this was its last state.
    Deleted(Arc<K>),
    /// Anything may have changed.
    Resync,
}

/// A kind that a [`Cache`] can hold.
pub(crate) trait CachedKind:
    Resource<DynamicType = ()> + Clone + Debug + Decode + Send + Sync + 'static
{
}

impl<K: Resource<DynamicType = ()> + Clone + Debug + Decode + Send + Sync + 'static> CachedKind for K {}

/// A cache of all objects of one kind, which a watch keeps up to date.
#[derive(Debug, Clone)]
pub(crate) struct Cache<K: Resource<DynamicType = ()> + 'static> {
    store: Store<K>,
    changes: broadcast::Sender<Change<K>>,
    /// Whether the first list is complete.
    listed: watch::Receiver<bool>,
}

impl<K: CachedKind> Cache<K> {
    /// Creates a cache, and the watch that fills it until `cancel`. The caller runs the watch.
    pub(crate) fn new(
        client: &Client,
        cancel: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + use<K>) {
        let (store, mut writer) = reflector::store();
        let changes = broadcast::Sender::new(MAX_CHANGES_BEHIND);
        let (is_listed, listed) = watch::channel(false);
        let cache = Self { store, changes: changes.clone(), listed };
        let events = longboat_watch::decoded::<K>(client, &Selection::of::<K>());
        let run = async move {
            let mut events = std::pin::pin!(events.take_until(cancel.cancelled()));
            while let Some(event) = events.next().await {
                let event = match event {
                    Ok(event) => event,
                    Err(error) => {
                        tracing::debug!(error = %text_of_watch(&error), kind = %K::kind(&()), "The watch is interrupted.");
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
                // It is not an error if nobody has subscribed.
                let _ = changes.send(change);
            }
        };
        (cache, run)
    }

    /// Returns a cache of these objects, which nothing changes.
    #[cfg(test)]
    pub(crate) fn of(objects: Vec<K>) -> Self {
        Self::with_writer(objects).0
    }

    /// Returns a cache of these objects, and what changes it without a signal.
    #[cfg(test)]
    pub(crate) fn with_writer(objects: Vec<K>) -> (Self, reflector::store::Writer<K>) {
        let (store, mut writer) = reflector::store();
        writer.apply_watcher_event(&watcher::Event::Init);
        for object in objects {
            writer.apply_watcher_event(&watcher::Event::InitApply(object));
        }
        writer.apply_watcher_event(&watcher::Event::InitDone);
        let cache = Self { store, changes: broadcast::Sender::new(1), listed: watch::channel(true).1 };
        (cache, writer)
    }

    /// Returns one [`Change::Resync`] for all earlier changes, then the changes from now on.
    pub(crate) fn changes(&self) -> impl Stream<Item = Change<K>> + Send + 'static {
        // Subscribed at once and not when the stream is read, so that no change falls between.
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

    /// Returns all objects.
    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.store.state()
    }

    /// Returns one object. The namespace is empty for cluster-scoped kinds.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let reference = ObjectRef::new(name);
        self.store.get(&if namespace.is_empty() { reference } else { reference.within(namespace) })
    }

    /// Waits until the first list is complete. Unlike the store's own signal, this signal reaches every waiting task.
    pub(crate) async fn ready(&self) {
        // Waiting only fails if the watch has ended, and then there is nothing to wait for.
        let _ = self.listed.clone().wait_for(|listed| *listed).await;
    }
}
