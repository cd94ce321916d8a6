//! Observed objects of one kind.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};

/// The objects of one kind by namespace and name; cluster-scoped ones have the empty namespace.
///
/// Clones, and copies of a namespace's objects, are the same objects until one side changes: a snapshot of a cache costs the
/// same however much the cache holds.
#[derive(Debug)]
pub struct Objects<K>(BTreeMap<Arc<str>, Arc<Named<K>>>);

/// The objects of a namespace by name.
type Named<K> = BTreeMap<Arc<str>, Arc<K>>;

// === impl Objects ===

impl<K> Default for Objects<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K> Clone for Objects<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> Objects<K> {
    /// The object of that name, if it was observed.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&K> {
        self.shared(namespace, name).map(AsRef::as_ref)
    }

    /// As [`Self::get`], to be kept.
    pub fn shared(&self, namespace: &str, name: &str) -> Option<&Arc<K>> {
        self.0.get(namespace)?.get(name)
    }

    /// The objects of a namespace, by name.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &K> {
        self.shared_in_namespace(namespace).map(AsRef::as_ref)
    }

    /// As [`Self::in_namespace`], to be kept.
    pub fn shared_in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<K>> {
        self.0.get(namespace).into_iter().flat_map(|named| named.values())
    }

    /// All objects, by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = &K> {
        self.shared_iter().map(AsRef::as_ref)
    }

    /// As [`Self::iter`], to be kept.
    pub fn shared_iter(&self) -> impl Iterator<Item = &Arc<K>> {
        self.0.values().flat_map(|named| named.values())
    }

    /// Takes over the objects of a namespace, in place of those it had of that namespace.
    pub fn adopt(&mut self, namespace: &str, from: &Self) {
        if let Some((namespace, named)) = from.0.get_key_value(namespace) {
            self.0.insert(Arc::clone(namespace), Arc::clone(named));
        }
    }

    /// Takes an object out.
    pub fn remove(&mut self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let named = self.0.get_mut(namespace)?;
        // Only what is there is worth a copy of what others share.
        named.contains_key(name).then(|| Arc::make_mut(named).remove(name)).flatten()
    }
}

impl<K: Metadata<Ty = ObjectMeta>> Objects<K> {
    /// Adds an object, replacing one of the same name.
    pub fn insert(&mut self, object: Arc<K>) {
        let metadata = object.metadata();
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let name = metadata.name.as_deref().unwrap_or_default();
        if !self.0.contains_key(namespace) {
            self.0.insert(Arc::from(namespace), Arc::default());
        }
        let Some(named) = self.0.get_mut(namespace).map(Arc::make_mut) else { return };
        match named.get_mut(name) {
            Some(present) => *present = object,
            None => {
                named.insert(Arc::from(name), object);
            }
        }
    }
}

impl<K: Metadata<Ty = ObjectMeta>> FromIterator<Arc<K>> for Objects<K> {
    fn from_iter<T: IntoIterator<Item = Arc<K>>>(objects: T) -> Self {
        let mut all = Self::default();
        all.extend(objects);
        all
    }
}

impl<K: Metadata<Ty = ObjectMeta>> Extend<Arc<K>> for Objects<K> {
    fn extend<T: IntoIterator<Item = Arc<K>>>(&mut self, objects: T) {
        for object in objects {
            self.insert(object);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};

    use super::Objects;

    fn object(namespace: &str, name: &str, version: &str) -> Arc<ConfigMap> {
        let metadata = ObjectMeta {
            namespace: Some(namespace.into()),
            name: Some(name.into()),
            resource_version: Some(version.into()),
            ..ObjectMeta::default()
        };
        Arc::new(ConfigMap { metadata, ..ConfigMap::default() })
    }

    fn version<'a>(objects: &'a Objects<ConfigMap>, name: &str) -> Option<&'a str> {
        objects.get("ns", name)?.metadata.resource_version.as_deref()
    }

    #[test]
    fn what_was_adopted_stays_as_it_was_when_the_source_changes() {
        let mut cache: Objects<ConfigMap> =
            [object("ns", "a", "1"), object("other", "b", "1")].into_iter().collect();
        let mut snapshot = Objects::default();
        snapshot.adopt("ns", &cache);
        cache.insert(object("ns", "a", "2"));
        cache.insert(object("ns", "c", "1"));
        assert_eq!((version(&snapshot, "a"), version(&snapshot, "c")), (Some("1"), None));
        assert_eq!((version(&cache, "a"), version(&cache, "c")), (Some("2"), Some("1")));
        assert!(snapshot.get("other", "b").is_none());
        cache.remove("ns", "a");
        assert_eq!((version(&snapshot, "a"), version(&cache, "a")), (Some("1"), None));
    }

    #[test]
    fn a_namespace_that_is_not_there_is_adopted_as_nothing() {
        let mut snapshot: Objects<ConfigMap> = Objects::default();
        snapshot.adopt("ns", &Objects::default());
        assert_eq!(snapshot.iter().count(), 0);
    }
}
