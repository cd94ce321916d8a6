//! Objects as the watches last saw them.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::{Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use longboat_plan::Objects;
use parking_lot::RwLock;

use crate::key::Key;

/// The objects of one kind by namespace and name.
#[derive(Debug)]
pub(crate) struct Cache<K> {
    objects: RwLock<Objects<K>>,
}

/// What became of an object: before and after.
pub(crate) type Change<K> = (Option<Arc<K>>, Option<Arc<K>>);

// === impl Cache ===

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Self { objects: RwLock::default() }
    }
}

impl<K: Metadata<Ty = ObjectMeta> + Clone> Cache<K> {
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.objects.read().shared(&key.namespace, &key.name).cloned()
    }

    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.objects.read().shared_in_namespace(namespace).cloned().collect()
    }

    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.objects.read().shared_iter().cloned().collect()
    }

    /// Those that are wanted, of one namespace if given, at most so many.
    pub(crate) fn select(
        &self,
        namespace: Option<&str>,
        most: usize,
        is_wanted: impl Fn(&K) -> bool,
    ) -> Vec<Arc<K>> {
        let objects = self.objects.read();
        let wanted = |object: &&Arc<K>| is_wanted(object);
        match namespace {
            Some(namespace) => {
                objects.shared_in_namespace(namespace).filter(wanted).take(most).cloned().collect()
            }
            None => objects.shared_iter().filter(wanted).take(most).cloned().collect(),
        }
    }

    /// Adds what there is in a namespace to a snapshot.
    pub(crate) fn share(&self, namespace: &str, snapshot: &mut Objects<K>) {
        snapshot.adopt(namespace, &self.objects.read());
    }

    /// All objects, for a snapshot.
    pub(crate) fn share_all(&self) -> Objects<K> {
        self.objects.read().clone()
    }

    /// Copies an object, from a watch or from the answer to a write of our own: what was read from text has twice the room that
    /// it needs, and a copy has none to spare. None when it is already known, or older than what is known: a watch may lag
    /// behind our own writes.
    pub(crate) fn set(&self, object: &K) -> Option<Change<K>> {
        self.take(object.metadata(), || object.clone())
    }

    fn take(&self, metadata: &ObjectMeta, object: impl FnOnce() -> K) -> Option<Change<K>> {
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let name = metadata.name.as_deref().unwrap_or_default();
        let mut objects = self.objects.write();
        let old = objects.shared(namespace, name).cloned();
        if old.as_ref().is_some_and(|old| !is_newer(metadata, old.metadata())) {
            return None;
        }
        let mut object = object();
        object.metadata_mut().managed_fields = None;
        let new = Arc::new(object);
        objects.insert(Arc::clone(&new));
        Some((old, Some(new)))
    }

    /// Drops an object that is gone, unless another of its name has come since.
    pub(crate) fn remove(&self, object: &K) -> Option<Change<K>> {
        let key = Key::of(object);
        let mut objects = self.objects.write();
        let known = objects.get(&key.namespace, &key.name)?;
        if known.metadata().uid != object.metadata().uid {
            return None;
        }
        Some((objects.remove(&key.namespace, &key.name), None))
    }

    /// Replaces all objects (of one namespace, if given) by what a new list says.
    pub(crate) fn replace(&self, namespace: Option<&str>, listed: Vec<K>) -> Vec<Change<K>> {
        let mut changes = Vec::new();
        let present: BTreeSet<Key> = listed.iter().map(Key::of).collect();
        let known = match namespace {
            Some(namespace) => self.in_namespace(namespace),
            None => self.all(),
        };
        for gone in known.iter().filter(|object| !present.contains(&Key::of(object.as_ref()))) {
            changes.extend(self.remove(gone));
        }
        changes.extend(listed.into_iter().filter_map(|object| {
            let metadata = object.metadata().clone();
            self.take(&metadata, || object)
        }));
        changes
    }
}

/// Whether `new` is another version than `old`, and not an older one. Versions are opaque by contract; where both are
/// numbers, as they are everywhere, the smaller one is older. Another uid is always newer.
fn is_newer(new: &ObjectMeta, old: &ObjectMeta) -> bool {
    if new.uid != old.uid {
        return true;
    }
    let number =
        |metadata: &ObjectMeta| metadata.resource_version.as_deref().and_then(|v| v.parse::<u64>().ok());
    match (number(new), number(old)) {
        (Some(new), Some(old)) => new > old,
        _ => new.resource_version != old.resource_version,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};

    use super::Cache;

    fn object(name: &str, uid: &str, version: &str) -> ConfigMap {
        let metadata = ObjectMeta {
            namespace: Some("ns".into()),
            name: Some(name.into()),
            uid: Some(uid.into()),
            resource_version: Some(version.into()),
            ..ObjectMeta::default()
        };
        ConfigMap { metadata, ..ConfigMap::default() }
    }

    #[test]
    fn an_older_version_does_not_replace_a_newer_one() {
        let cache = Cache::default();
        assert!(cache.set(&object("a", "1", "10")).is_some());
        assert!(cache.set(&object("a", "1", "9")).is_none());
        assert!(cache.set(&object("a", "1", "10")).is_none());
        assert!(cache.set(&object("a", "1", "11")).is_some());
        assert!(cache.set(&object("a", "2", "5")).is_some());
    }

    #[test]
    fn a_late_deletion_leaves_the_successor_alone() {
        let cache = Cache::default();
        cache.set(&object("a", "2", "5"));
        assert!(cache.remove(&object("a", "1", "4")).is_none());
        assert_eq!(cache.all().len(), 1);
    }

    #[test]
    fn a_new_list_drops_what_it_does_not_hold() {
        let cache = Cache::default();
        cache.set(&object("a", "1", "1"));
        cache.set(&object("b", "2", "2"));
        let changes = cache.replace(None, vec![object("b", "2", "2"), object("c", "3", "3")]);
        assert_eq!(changes.len(), 2);
        assert_eq!(cache.all().len(), 2);
    }
}
