//! The objects of a snapshot. They record which objects planning looked up.

use std::{
    collections::BTreeSet,
    ops::{Deref, DerefMut},
};

use k8s_openapi::{Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use longboat_key::{Key, Name, Namespace, Uid};
use longboat_store::Objects;
use parking_lot::Mutex;

use crate::{
    key::{Kind, ObjectKey},
    owner,
};

/// The [`Objects`] of one kind, as one reconcile sees them.
///
/// [`Self::get`] records the name, whether or not the object exists: the service depends on every object that planning looked
/// up, and is enqueued when the object appears, changes or disappears. If planning finds an object in another way, the change
/// must reach the service in another way: by an owner reference or a label of the object, or by the key of an index, which
/// [`IndexReads`] records.
#[derive(Debug)]
pub struct ObservedObjects<K> {
    objects: Objects<K>,
    lookups: Mutex<BTreeSet<Key>>,
}

/// Keys of indexes that planning looked up.
#[derive(Debug, Default)]
pub(crate) struct IndexReads(Mutex<BTreeSet<ObjectKey>>);

// === impl ObservedObjects ===

impl<K> ObservedObjects<K> {
    /// Returns the object of that name and records the lookup. Returns `None` if the snapshot does not have it.
    pub fn get(&self, namespace: Namespace<&str>, name: Name<&str>) -> Option<&K> {
        self.lookups.lock().insert(Key::new(namespace, name));
        self.objects.get(namespace, name)
    }

    /// The names that were looked up and not found.
    pub fn missed(&self) -> Vec<Key> {
        let lookups = self.lookups.lock();
        // An object that is stored and cannot be decoded is not missing, so not `get`.
        let is_missing =
            |key: &&Key| self.objects.stored(key.namespace.as_deref(), key.name.as_deref()).is_none();
        lookups.iter().filter(is_missing).cloned().collect()
    }
}

impl<K: Metadata<Ty = ObjectMeta>> ObservedObjects<K> {
    /// Adds the objects that were looked up and cannot be decoded, with the reason.
    pub(crate) fn add_unreadable(&self, kind: Kind, unreadable: &mut Vec<(ObjectKey, String)>) {
        unreadable.extend(self.objects.unreadable().into_iter().map(|(key, why)| (key.of_kind(kind), why)));
    }

    /// Adds the keys that were looked up, except objects that the owner with that uid controls: a change of a child enqueues
    /// its owner anyway.
    pub(crate) fn add_reads(&self, kind: Kind, uid: Uid<&str>, reads: &mut BTreeSet<ObjectKey>) {
        let lookups = self.lookups.lock();
        let is_child = |key: &&Key| {
            let found = self.objects.get(key.namespace.as_deref(), key.name.as_deref());
            found.is_some_and(|found| owner::controls(uid, found.metadata()))
        };
        reads.extend(lookups.iter().filter(|key| !is_child(key)).map(|key| key.clone().of_kind(kind)));
    }
}

impl<K> Default for ObservedObjects<K> {
    fn default() -> Self {
        Objects::default().into()
    }
}

/// The copy starts without recorded lookups.
impl<K> Clone for ObservedObjects<K> {
    fn clone(&self) -> Self {
        self.objects.clone().into()
    }
}

impl<K> From<Objects<K>> for ObservedObjects<K> {
    fn from(objects: Objects<K>) -> Self {
        Self { objects, lookups: Mutex::default() }
    }
}

impl<K> Deref for ObservedObjects<K> {
    type Target = Objects<K>;

    fn deref(&self) -> &Objects<K> {
        &self.objects
    }
}

impl<K> DerefMut for ObservedObjects<K> {
    fn deref_mut(&mut self) -> &mut Objects<K> {
        &mut self.objects
    }
}

// === impl IndexReads ===

impl IndexReads {
    pub(crate) fn record(&self, kind: Kind, namespace: Namespace<&str>, name: Name<&str>) {
        self.0.lock().insert(Key::new(namespace, name).of_kind(kind));
    }

    pub(crate) fn keys(&self) -> BTreeSet<ObjectKey> {
        self.0.lock().clone()
    }
}

/// The copy starts without recorded lookups.
impl Clone for IndexReads {
    fn clone(&self) -> Self {
        Self::default()
    }
}
