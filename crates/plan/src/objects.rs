//! Observed objects of one kind.

use std::{collections::BTreeMap, fmt, sync::Arc};

use elsa::sync::FrozenMap;
use k8s_openapi::{Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use rpds::RedBlackTreeMapSync;

use crate::{edition::sum, kept::Kept};

/// The objects of one kind by namespace and name; cluster-scoped ones have the empty namespace.
///
/// Clones, and copies of a namespace's objects, share what both have: neither a snapshot of a cache nor a change beside one costs
/// more where the cache holds more. What is kept as text is read when it is first asked for, for as long as these objects live.
pub struct Objects<K> {
    named: BTreeMap<Arc<str>, Named<K>>,
    /// What was read from text, by where the text is.
    opened: FrozenMap<usize, Arc<K>>,
}

/// The objects of a namespace by name.
type Named<K> = RedBlackTreeMapSync<Arc<str>, Entry<K>>;

struct Entry<K> {
    /// A sum of the uid of what controls the object.
    owner: u64,
    kept: Kept<K>,
}

// === impl Objects ===

impl<K> Default for Objects<K> {
    fn default() -> Self {
        Self { named: BTreeMap::new(), opened: FrozenMap::new() }
    }
}

impl<K> Clone for Objects<K> {
    fn clone(&self) -> Self {
        Self { named: self.named.clone(), opened: FrozenMap::new() }
    }
}

impl<K> fmt::Debug for Objects<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.named.iter().map(|(namespace, named)| (namespace, named.keys().collect::<Vec<_>>()));
        f.debug_map().entries(names).finish()
    }
}

impl<K> Objects<K> {
    /// The object of that name, if it was observed.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&K> {
        self.open(self.kept(namespace, name)?)
    }

    /// As [`Self::get`], the way it is kept.
    pub fn kept(&self, namespace: &str, name: &str) -> Option<&Kept<K>> {
        Some(&self.named.get(namespace)?.get(name)?.kept)
    }

    /// The objects of a namespace, by name.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &K> {
        self.kept_in_namespace(namespace).filter_map(|kept| self.open(kept))
    }

    /// The objects of a namespace whose controller has that uid, by name. Others are not read.
    pub fn controlled(&self, namespace: &str, uid: &str) -> impl Iterator<Item = &K> {
        let owner = sum(Some(uid));
        let named = self.named.get(namespace).into_iter().flat_map(|named| named.values());
        // Others may have the same sum: whoever asks looks again.
        named.filter(move |entry| entry.owner == owner).filter_map(|entry| self.open(&entry.kept))
    }

    /// The objects of a namespace that are kept whole, by name. Others are not read.
    pub fn whole_in_namespace(&self, namespace: &str) -> impl Iterator<Item = &K> {
        self.kept_in_namespace(namespace).filter_map(|kept| match kept {
            Kept::Whole(object) => Some(object.as_ref()),
            Kept::Packed(_) => None,
        })
    }

    /// As [`Self::in_namespace`], the way they are kept.
    pub fn kept_in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Kept<K>> {
        self.named.get(namespace).into_iter().flat_map(|named| named.values()).map(|entry| &entry.kept)
    }

    /// All objects, by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = &K> {
        self.kept_iter().filter_map(|kept| self.open(kept))
    }

    /// As [`Self::iter`], the way they are kept.
    pub fn kept_iter(&self) -> impl Iterator<Item = &Kept<K>> {
        self.named.values().flat_map(|named| named.values()).map(|entry| &entry.kept)
    }

    /// The namespace and name of each object, in that order.
    pub fn names(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.named.iter().flat_map(|(namespace, named)| named.keys().map(move |name| (namespace, name)))
    }

    /// Takes over the objects of a namespace, in place of those it had of that namespace.
    pub fn adopt(&mut self, namespace: &str, from: &Self) {
        self.opened.as_mut().clear();
        if let Some((namespace, named)) = from.named.get_key_value(namespace) {
            self.named.insert(Arc::clone(namespace), named.clone());
        }
    }

    /// Takes over one object, if it is there.
    pub fn adopt_one(&mut self, namespace: &str, name: &str, from: &Self) {
        let Some((namespace, named)) = from.named.get_key_value(namespace) else { return };
        let Some((name, entry)) = named.get_key_value(name) else { return };
        self.opened.as_mut().clear();
        let own = self.named.entry(Arc::clone(namespace)).or_default();
        own.insert_mut(Arc::clone(name), entry.clone());
    }

    /// Takes an object out.
    pub fn remove(&mut self, namespace: &str, name: &str) -> Option<Kept<K>> {
        self.opened.as_mut().clear();
        let named = self.named.get_mut(namespace)?;
        let removed = named.get(name)?.kept.clone();
        named.remove_mut(name);
        Some(removed)
    }

    /// The name of an object that is there already, to be shared.
    fn kept_name(&self, namespace: &str, name: &str) -> Option<&Arc<str>> {
        self.named.get(namespace)?.get_key_value(name).map(|(name, _)| name)
    }

    fn open<'a>(&'a self, kept: &'a Kept<K>) -> Option<&'a K> {
        let packed = match kept {
            Kept::Whole(object) => return Some(object),
            Kept::Packed(packed) => packed,
        };
        let place = Arc::as_ptr(packed).addr();
        if let Some(known) = self.opened.get(&place) {
            return Some(known);
        }
        Some(self.opened.insert(place, Arc::new(packed.open()?)))
    }
}

impl<K: Metadata<Ty = ObjectMeta>> Objects<K> {
    /// Adds an object, replacing one of the same name.
    pub fn insert(&mut self, object: Arc<K>) {
        let metadata = object.metadata().clone();
        self.keep(&metadata, Kept::Whole(object));
    }

    /// As [`Self::insert`], the way it is to be kept; with its metadata.
    pub fn keep(&mut self, metadata: &ObjectMeta, kept: Kept<K>) {
        self.opened.as_mut().clear();
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let name = metadata.name.as_deref().unwrap_or_default();
        let owners = metadata.owner_references.iter().flatten();
        let controller = owners.into_iter().find(|owner| owner.controller == Some(true));
        let entry = Entry { owner: sum(controller.map(|owner| owner.uid.as_str())), kept };
        let name = match self.kept_name(namespace, name) {
            Some(known) => Arc::clone(known),
            None => Arc::from(name),
        };
        if let Some(named) = self.named.get_mut(namespace) {
            named.insert_mut(name, entry);
        } else {
            self.named.insert(Arc::from(namespace), Named::default().insert(name, entry));
        }
    }
}

impl<K> Clone for Entry<K> {
    fn clone(&self) -> Self {
        Self { owner: self.owner, kept: self.kept.clone() }
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

    use k8s_openapi::{
        api::core::v1::ConfigMap,
        apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
    };

    use super::Objects;
    use crate::kept::{Kept, Sample};

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

    #[test]
    fn what_is_kept_as_text_is_as_it_was_and_read_once() {
        let object = object("ns", "a", "1");
        let sample = Sample::default();
        let packed = |object: &ConfigMap| Kept::packed(object, &sample, true).unwrap();
        let mut objects: Objects<ConfigMap> = Objects::default();
        objects.keep(&object.metadata, packed(&object));
        let copy = objects.clone();
        let read = copy.get("ns", "a").unwrap();
        assert_eq!(read, object.as_ref());
        assert_eq!(copy.kept("ns", "a").unwrap().metadata().as_deref(), Some(&object.metadata));
        assert!(std::ptr::eq(read, copy.in_namespace("ns").next().unwrap()));
        objects.keep(&object.metadata, packed(&ConfigMap { immutable: Some(true), ..read.clone() }));
        assert_eq!(objects.get("ns", "a").unwrap().immutable, Some(true));
        assert_eq!(copy.get("ns", "a").unwrap().immutable, None);
    }

    #[test]
    fn a_text_in_another_order_and_with_more_in_it_is_the_object_that_was_read_from_it() {
        let text = r#"{"x": 1, "data": {"k": "v"}, "metadata": {"name": "a", "managedFields": null, "namespace": "ns"}}"#;
        let object: ConfigMap = serde_json::from_str(text).unwrap();
        let sample = Sample::default();
        let mut objects: Objects<ConfigMap> = Objects::default();
        // The first is the sample, the second is compressed by it.
        for name in ["a", "b"] {
            let metadata = ObjectMeta { name: Some(name.into()), ..object.metadata.clone() };
            objects.keep(&metadata, Kept::of_text(&object, text.as_bytes(), &sample, true));
            assert_eq!(objects.get("ns", name), Some(&object));
        }
    }

    #[test]
    fn who_asks_for_what_it_controls_gets_no_more() {
        let owned = |name: &str, uid: &str| {
            let mut object = object("ns", name, "1").as_ref().clone();
            let owner =
                OwnerReference { controller: Some(true), uid: uid.into(), ..OwnerReference::default() };
            object.metadata.owner_references = Some(vec![owner]);
            Arc::new(object)
        };
        let objects: Objects<ConfigMap> =
            [owned("a", "1"), owned("b", "2"), object("ns", "c", "1"), owned("d", "1")].into_iter().collect();
        let names = objects.controlled("ns", "1").map(|object| object.metadata.name.as_deref().unwrap());
        assert_eq!(names.collect::<Vec<_>>(), ["a", "d"]);
        assert_eq!(objects.controlled("ns", "3").count(), 0);
    }
}
