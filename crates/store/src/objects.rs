//! Objects of one kind.

use std::{collections::BTreeMap, fmt, sync::Arc};

use elsa::sync::FrozenMap;
use k8s_openapi::{Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use parking_lot::Mutex;
use rpds::RedBlackTreeMapSync;

use longboat_key::{Key, Name, Namespace, Uid};

use crate::{
    stored::StoredObject,
    version::{Version, hash},
};

/// The objects of one kind by namespace and name. Cluster-scoped objects have the empty namespace.
///
/// Clones, and copies of a namespace's objects, share memory. So the cost of a snapshot of a cache, and of a change after it,
/// does not grow with the cache. Compressed text is decoded when an object is first read, and the result is kept as long as
/// this collection lives.
///
/// An object that cannot be decoded looks absent. Code that decides based on absent objects checks [`Self::unreadable`]
/// first.
pub struct Objects<K> {
    named: BTreeMap<Namespace, ByName<K>>,
    /// Decoded objects, by the address of their compressed text.
    opened: FrozenMap<usize, Arc<K>>,
    /// Objects that were read and cannot be decoded, with the reason.
    unreadable: Mutex<BTreeMap<Key, String>>,
}

/// The objects of a namespace by name.
type ByName<K> = RedBlackTreeMapSync<Name, Entry<K>>;

struct Entry<K> {
    /// A hash of the uid of the object's controller.
    owner: u64,
    stored: StoredObject<K>,
}

// === impl Objects ===

impl<K> Default for Objects<K> {
    fn default() -> Self {
        Self::of(BTreeMap::new())
    }
}

impl<K> Clone for Objects<K> {
    fn clone(&self) -> Self {
        Self::of(self.named.clone())
    }
}

impl<K> fmt::Debug for Objects<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.named.iter().map(|(namespace, named)| (namespace, named.keys().collect::<Vec<_>>()));
        f.debug_map().entries(names).finish()
    }
}

impl<K> Objects<K> {
    fn of(named: BTreeMap<Namespace, ByName<K>>) -> Self {
        Self { named, opened: FrozenMap::new(), unreadable: Mutex::default() }
    }

    /// Returns the object of that name, or `None` if it does not exist or cannot be decoded.
    pub fn get(&self, namespace: Namespace<&str>, name: Name<&str>) -> Option<&K> {
        self.open(namespace, name, self.stored(namespace, name)?)
    }

    /// Like [`Self::get`], in its stored form.
    pub fn stored(&self, namespace: Namespace<&str>, name: Name<&str>) -> Option<&StoredObject<K>> {
        Some(&self.named.get(namespace.as_str())?.get(name.as_str())?.stored)
    }

    /// The objects of a namespace, by name.
    pub fn in_namespace(&self, namespace: Namespace<&str>) -> impl Iterator<Item = &K> {
        self.entries(namespace)
            .filter_map(|(namespace, name, entry)| self.open(namespace, name, &entry.stored))
    }

    /// The objects of a namespace whose controller has that uid, by name. Other objects are not decoded, except in a hash
    /// collision, so the caller compares the uid.
    pub fn controlled(&self, namespace: Namespace<&str>, uid: Uid<&str>) -> impl Iterator<Item = &K> {
        let owner = hash(Some(uid.as_str()));
        let entries = self.entries(namespace).filter(move |(_, _, entry)| entry.owner == owner);
        entries.filter_map(|(namespace, name, entry)| self.open(namespace, name, &entry.stored))
    }

    /// The objects of a namespace that are stored decoded, by name. Compressed objects are not decoded.
    pub fn decoded_in_namespace(&self, namespace: Namespace<&str>) -> impl Iterator<Item = &K> {
        self.entries(namespace).filter_map(|(_, _, entry)| match &entry.stored {
            StoredObject::Decoded(object) => Some(object.as_ref()),
            StoredObject::Compressed(_) | StoredObject::Unreadable(_) => None,
        })
    }

    /// All objects, by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = &K> {
        self.named.keys().flat_map(|namespace| self.in_namespace(namespace.as_deref()))
    }

    /// Like [`Self::iter`], in their stored form.
    pub(crate) fn stored_iter(&self) -> impl Iterator<Item = &StoredObject<K>> {
        self.named.values().flat_map(|named| named.values()).map(|entry| &entry.stored)
    }

    /// The namespace and name of each object, sorted.
    pub fn names(&self) -> impl Iterator<Item = (&Namespace, &Name)> {
        self.named.iter().flat_map(|(namespace, named)| named.keys().map(move |name| (namespace, name)))
    }

    /// The objects that were read and cannot be decoded, with the reason.
    pub fn unreadable(&self) -> Vec<(Key, String)> {
        self.unreadable.lock().iter().map(|(key, reason)| (key.clone(), reason.clone())).collect()
    }

    /// Takes the objects of a namespace from another collection. They replace the objects of that namespace.
    pub fn adopt(&mut self, namespace: Namespace<&str>, from: &Self) {
        self.opened.as_mut().clear();
        match from.named.get_key_value(namespace.as_str()) {
            Some((namespace, named)) => self.named.insert(namespace.clone(), named.clone()),
            None => self.named.remove(namespace.as_str()),
        };
    }

    /// Takes one object from another collection, if it exists there.
    pub(crate) fn adopt_one(&mut self, namespace: Namespace<&str>, name: Name<&str>, from: &Self) {
        let Some((namespace, named)) = from.named.get_key_value(namespace.as_str()) else { return };
        let Some((name, entry)) = named.get_key_value(name.as_str()) else { return };
        self.opened.as_mut().clear();
        let own = self.named.entry(namespace.clone()).or_default();
        own.insert_mut(name.clone(), entry.clone());
    }

    /// Removes an object. Returns it, if it was there.
    pub fn remove(&mut self, namespace: Namespace<&str>, name: Name<&str>) -> Option<StoredObject<K>> {
        self.opened.as_mut().clear();
        let named = self.named.get_mut(namespace.as_str())?;
        let removed = named.get(name.as_str())?.stored.clone();
        named.remove_mut(name.as_str());
        // Namespaces come and go, so one without objects must leave nothing behind.
        if named.is_empty() {
            self.named.remove(namespace.as_str());
        }
        Some(removed)
    }

    /// The entries of a namespace, each with its namespace and name.
    fn entries(
        &self,
        namespace: Namespace<&str>,
    ) -> impl Iterator<Item = (Namespace<&str>, Name<&str>, &Entry<K>)> {
        let found = self.named.get_key_value(namespace.as_str()).into_iter();
        found.flat_map(|(namespace, named)| {
            named.iter().map(move |(name, entry)| (namespace.as_deref(), name.as_deref(), entry))
        })
    }

    /// The stored name of an existing object, for sharing.
    fn shared_name(&self, namespace: Namespace<&str>, name: Name<&str>) -> Option<&Name> {
        self.named.get(namespace.as_str())?.get_key_value(name.as_str()).map(|(name, _)| name)
    }

    fn open<'a>(
        &'a self,
        namespace: Namespace<&str>,
        name: Name<&str>,
        stored: &'a StoredObject<K>,
    ) -> Option<&'a K> {
        let object = match stored {
            StoredObject::Decoded(object) => return Some(object),
            StoredObject::Unreadable(why) => {
                self.note_unreadable(namespace, name, why.reason.clone());
                return None;
            }
            StoredObject::Compressed(object) => object,
        };
        let place = Arc::as_ptr(object).addr();
        if let Some(known) = self.opened.get(&place) {
            return Some(known);
        }
        match object.text.read() {
            Ok(read) => Some(self.opened.insert(place, Arc::new(read))),
            Err(reason) => {
                self.note_unreadable(namespace, name, reason);
                None
            }
        }
    }

    fn note_unreadable(&self, namespace: Namespace<&str>, name: Name<&str>, reason: String) {
        self.unreadable.lock().insert(Key::new(namespace, name), reason);
    }
}

impl<K: Metadata<Ty = ObjectMeta>> Objects<K> {
    /// Adds an object, or replaces the one with the same name.
    pub fn insert(&mut self, object: Arc<K>) {
        let metadata = object.metadata().clone();
        self.store(&metadata, StoredObject::Decoded(object));
    }

    /// Whether this version of an object is here, or a newer one.
    pub(crate) fn knows(&self, metadata: &ObjectMeta) -> bool {
        let known = self.stored(Namespace::of(metadata), Name::of(metadata));
        known.is_some_and(|known| !Version::of(metadata).is_newer(&known.version()))
    }
}

impl<K> Objects<K> {
    /// Adds an object with this metadata, or replaces the one with the same name.
    pub fn store(&mut self, metadata: &ObjectMeta, stored: StoredObject<K>) {
        // What is decoded is known by the address of its text, and another text may get that address.
        self.opened.as_mut().clear();
        let (namespace, name) = (Namespace::of(metadata), Name::of(metadata));
        let owners = metadata.owner_references.iter().flatten();
        let controller = owners.into_iter().find(|owner| owner.controller == Some(true));
        let entry = Entry { owner: hash(controller.map(|owner| owner.uid.as_str())), stored };
        let name = match self.shared_name(namespace, name) {
            Some(known) => known.clone(),
            None => name.to_shared(),
        };
        if let Some(named) = self.named.get_mut(namespace.as_str()) {
            named.insert_mut(name, entry);
        } else {
            self.named.insert(namespace.to_shared(), ByName::default().insert(name, entry));
        }
    }
}

impl<K> Clone for Entry<K> {
    fn clone(&self) -> Self {
        Self { owner: self.owner, stored: self.stored.clone() }
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

    use super::{Key, Name, Namespace, Objects, Uid};
    use crate::{compressed::Dictionary, stored::StoredObject};

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
        objects.get(Namespace("ns"), Name(name))?.metadata.resource_version.as_deref()
    }

    #[test]
    fn adopted_objects_stay_as_they_were_when_the_source_changes() {
        let mut cache: Objects<ConfigMap> =
            [object("ns", "a", "1"), object("other", "b", "1")].into_iter().collect();
        let mut snapshot = Objects::default();
        snapshot.adopt(Namespace("ns"), &cache);
        cache.insert(object("ns", "a", "2"));
        cache.insert(object("ns", "c", "1"));
        assert_eq!((version(&snapshot, "a"), version(&snapshot, "c")), (Some("1"), None));
        assert_eq!((version(&cache, "a"), version(&cache, "c")), (Some("2"), Some("1")));
        assert!(snapshot.get(Namespace("other"), Name("b")).is_none());
        cache.remove(Namespace("ns"), Name("a"));
        assert_eq!((version(&snapshot, "a"), version(&cache, "a")), (Some("1"), None));
    }

    #[test]
    fn a_namespace_without_objects_leaves_nothing_behind() {
        let mut cache: Objects<ConfigMap> = [object("ns", "a", "1")].into_iter().collect();
        let mut snapshot = cache.clone();
        cache.remove(Namespace("ns"), Name("a"));
        assert!(cache.named.is_empty());
        snapshot.adopt(Namespace("ns"), &cache);
        assert_eq!(snapshot.iter().count(), 0, "the objects of the namespace are replaced, by none");
    }

    #[test]
    fn compressed_text_says_what_was_stored_and_is_read_once() {
        let object = object("ns", "a", "1");
        let dictionary = Dictionary::default();
        let compressed = |object: &ConfigMap| {
            let text = serde_json::to_string(object).unwrap();
            StoredObject::compress(&object.metadata, &text, &dictionary, true)
        };
        let mut objects: Objects<ConfigMap> = Objects::default();
        objects.store(&object.metadata, compressed(&object));
        let copy = objects.clone();
        let read = copy.get(Namespace("ns"), Name("a")).unwrap();
        assert_eq!(read, object.as_ref());
        assert_eq!(
            copy.stored(Namespace("ns"), Name("a")).unwrap().metadata().unwrap().as_ref(),
            &object.metadata
        );
        assert!(std::ptr::eq(read, copy.in_namespace(Namespace("ns")).next().unwrap()));
        objects.store(&object.metadata, compressed(&ConfigMap { immutable: Some(true), ..read.clone() }));
        assert_eq!(objects.get(Namespace("ns"), Name("a")).unwrap().immutable, Some(true));
        assert_eq!(copy.get(Namespace("ns"), Name("a")).unwrap().immutable, None);
    }

    #[test]
    fn text_in_another_order_and_with_unknown_fields_says_what_was_stored() {
        let text = r#"{"x": 1, "data": {"k": "v"}, "metadata": {"name": "a", "managedFields": null, "namespace": "ns"}}"#;
        let object: ConfigMap = serde_json::from_str(text).unwrap();
        let dictionary = Dictionary::default();
        let mut objects: Objects<ConfigMap> = Objects::default();
        // The first object is the dictionary for the second.
        for name in ["a", "b"] {
            let metadata = ObjectMeta { name: Some(name.into()), ..object.metadata.clone() };
            objects.store(&metadata, StoredObject::compress(&metadata, text, &dictionary, true));
            assert_eq!(objects.get(Namespace("ns"), Name(name)), Some(&object));
        }
    }

    #[test]
    fn objects_of_a_controller_are_found_without_the_others() {
        let owned = |name: &str, uid: &str| {
            let mut object = object("ns", name, "1").as_ref().clone();
            let owner =
                OwnerReference { controller: Some(true), uid: uid.into(), ..OwnerReference::default() };
            object.metadata.owner_references = Some(vec![owner]);
            Arc::new(object)
        };
        let objects: Objects<ConfigMap> =
            [owned("a", "1"), owned("b", "2"), object("ns", "c", "1"), owned("d", "1")].into_iter().collect();
        let names = objects
            .controlled(Namespace("ns"), Uid("1"))
            .map(|object| object.metadata.name.as_deref().unwrap());
        assert_eq!(names.collect::<Vec<_>>(), ["a", "d"]);
        assert_eq!(objects.controlled(Namespace("ns"), Uid("3")).count(), 0);
    }

    #[test]
    fn an_object_that_cannot_be_read_is_named_once_it_was_asked_for() {
        let text = r#"{"metadata": {"name": "a", "namespace": "ns"}, "data": "no map"}"#;
        let metadata = object("ns", "a", "1").metadata.clone();
        let mut objects: Objects<ConfigMap> = [object("ns", "b", "1")].into_iter().collect();
        objects.store(&metadata, StoredObject::compress(&metadata, text, &Dictionary::default(), true));
        assert_eq!(objects.unreadable(), []);
        assert!(objects.get(Namespace("ns"), Name("a")).is_none());
        assert_eq!(objects.in_namespace(Namespace("ns")).count(), 1);
        let unreadable = objects.unreadable();
        assert_eq!(unreadable.len(), 1);
        assert_eq!(unreadable[0].0, Key::new(Namespace("ns"), Name("a")));
        assert!(unreadable[0].1.contains("no map"), "{}", unreadable[0].1);
        objects.store(&metadata, StoredObject::unreadable(&metadata, "it is too large".into()));
        assert!(objects.clone().unreadable().is_empty());
        assert!(objects.get(Namespace("ns"), Name("a")).is_none());
        assert_eq!(objects.unreadable()[0].1, "it is too large");
    }
}
