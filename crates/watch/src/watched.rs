//! Objects of one kind as a watch reports them.

use std::collections::BTreeMap;

use kube::{
    Resource,
    runtime::watcher::{self, Event},
};
use longboat_key::Key;

/// The objects, or what was read of each.
#[derive(Debug)]
pub struct Watched<V> {
    /// The objects at the last event.
    pub now: BTreeMap<Key, V>,
    /// The objects of a list that is not complete.
    listed: BTreeMap<Key, V>,
    /// Whether a list was complete.
    pub is_synced: bool,
}

// === impl Watched ===

impl<V> Default for Watched<V> {
    fn default() -> Self {
        Self { now: BTreeMap::new(), listed: BTreeMap::new(), is_synced: false }
    }
}

impl<V> Watched<V> {
    /// Applies an event. Objects of which `read` returns nothing count as absent. Returns whether the objects may have changed.
    ///
    /// # Errors
    /// If the watch was interrupted. It starts again by itself.
    pub fn apply<K: Resource>(
        &mut self,
        event: watcher::Result<Event<K>>,
        read: impl FnOnce(K) -> Option<V>,
    ) -> watcher::Result<bool> {
        match event? {
            Event::Init => self.listed.clear(),
            Event::InitApply(object) => {
                let key = Key::of_metadata(object.meta());
                self.listed.extend(read(object).map(|value| (key, value)));
            }
            Event::InitDone => {
                self.now = std::mem::take(&mut self.listed);
                self.is_synced = true;
                return Ok(true);
            }
            Event::Apply(object) => {
                let key = Key::of_metadata(object.meta());
                match read(object) {
                    Some(value) => self.now.insert(key, value),
                    None => self.now.remove(&key),
                };
                return Ok(true);
            }
            Event::Delete(object) => return Ok(self.now.remove(&Key::of_metadata(object.meta())).is_some()),
        }
        Ok(false)
    }
}
