//! Objects of one kind as a watch reports them.

use std::collections::BTreeMap;

use k8s_openapi::{Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::runtime::watcher::{self, Event};
use longboat_key::Key;
use longboat_watch::text_of_watch;

/// The objects, or what was read of each.
pub(super) struct Watched<V> {
    pub(super) now: BTreeMap<Key, V>,
    /// The objects of a list that is not complete.
    listed: BTreeMap<Key, V>,
    /// Whether a list was complete.
    pub(super) is_synced: bool,
}

// === impl Watched ===

impl<V> Watched<V> {
    pub(super) fn new() -> Self {
        Self { now: BTreeMap::new(), listed: BTreeMap::new(), is_synced: false }
    }

    /// Applies an event. Objects of which `read` returns nothing count as absent.
    pub(super) fn apply<K: Metadata<Ty = ObjectMeta>>(
        &mut self,
        event: watcher::Result<Event<K>>,
        read: impl Fn(K) -> Option<V>,
    ) {
        match event {
            Ok(Event::Init) => self.listed.clear(),
            Ok(Event::InitApply(object)) => {
                let key = Key::of_metadata(object.metadata());
                self.listed.extend(read(object).map(|value| (key, value)));
            }
            Ok(Event::InitDone) => {
                self.now = std::mem::take(&mut self.listed);
                self.is_synced = true;
            }
            Ok(Event::Apply(object)) => {
                let key = Key::of_metadata(object.metadata());
                match read(object) {
                    Some(value) => drop(self.now.insert(key, value)),
                    None => drop(self.now.remove(&key)),
                }
            }
            Ok(Event::Delete(object)) => drop(self.now.remove(&Key::of_metadata(object.metadata()))),
            Err(error) => {
                tracing::debug!(error = %text_of_watch(&error), kind = std::any::type_name::<K>(), "Restarting a watch that failed.");
            }
        }
    }
}
