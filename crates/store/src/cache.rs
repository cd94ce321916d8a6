//! Caches objects as watches and responses last reported them.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use k8s_openapi::{Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use longboat_key::{Key, Name, Namespace};
use parking_lot::RwLock;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    compressed::Dictionary,
    deletions::{DeletionLog, DeletionMark},
    objects::Objects,
    stored::StoredObject,
    summaries::Summaries,
    version::Version,
};

/// The objects of one kind by namespace and name, and for each a summary `S` on which other objects depend.
#[derive(Debug)]
pub struct Cache<K, S> {
    layout: Layout<K, S>,
    content: RwLock<Content<K, S>>,
    /// Dictionaries for compression: one for JSON that this program writes, and one for JSON of API servers.
    dictionaries: [Dictionary; 2],
}

/// How the objects of a kind are stored.
#[derive(Debug)]
pub struct Layout<K, S> {
    /// Whether an object is stored as compressed text, because it is rarely read. A change of such an object does not contain
    /// the old object.
    pub is_compressed: fn(&K) -> bool,
    /// Whether other objects resemble this one, so that it may serve as a dictionary for their compression. A dictionary
    /// stays in memory as long as the cache.
    pub is_typical: fn(&K) -> bool,
    /// The part of an object on which others depend, if they do not depend on the whole object.
    pub summary: fn(&K) -> Option<S>,
    /// Creates an object that has only metadata. Set for kinds whose objects are decoded completely only when they are read.
    pub from_metadata: Option<fn(ObjectMeta) -> K>,
}

#[derive(Debug)]
struct Content<K, S> {
    objects: Objects<K>,
    summaries: Summaries<S>,
    deletions: DeletionLog,
}

/// A removed object. It is decoded after the lock is released.
struct RemovedObject<K, S> {
    key: Key,
    object: StoredObject<K>,
    summary: Option<Arc<S>>,
}

/// A change of an object.
#[derive(Debug)]
pub struct Change<'a, K, S> {
    /// The key of the object.
    pub key: Key,
    /// The object before the change. `None` if it is new or could not be decoded, or if it is stored as text and still
    /// exists.
    pub old: Option<Arc<K>>,
    /// The object after the change, or `None` if it was deleted.
    pub new: Option<&'a K>,
    /// The summaries before and after the change.
    pub summaries: [Option<Arc<S>>; 2],
}

// === impl Cache ===

impl<K, S> Cache<K, S> {
    /// Creates an empty cache.
    pub fn new(layout: Layout<K, S>) -> Self {
        let content = Content {
            objects: Objects::default(),
            summaries: Summaries::default(),
            deletions: DeletionLog::default(),
        };
        Self { layout, content: RwLock::new(content), dictionaries: Default::default() }
    }
}

impl<K, S> Cache<K, S>
where
    K: Metadata<Ty = ObjectMeta> + Clone + PartialEq + std::fmt::Debug + Serialize + DeserializeOwned,
    S: PartialEq,
{
    /// Returns the object of that name, or `None` if it does not exist or cannot be decoded.
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.stored(key)?.read().ok()
    }

    /// Returns a newer version of the object with this metadata, if the cache has one.
    pub fn newer(&self, metadata: &ObjectMeta) -> Option<Arc<K>> {
        let stored = self.stored(&Key::of_metadata(metadata))?;
        let (present, known) = (stored.version(), Version::of(metadata));
        let is_newer = present.is_same_object(&known) && present.is_newer(&known);
        if is_newer { stored.read().ok() } else { None }
    }

    /// Returns the metadata of an object, without decoding the rest.
    pub fn metadata(&self, key: &Key) -> Option<ObjectMeta> {
        Some(self.stored(key)?.metadata().ok()?.into_owned())
    }

    fn stored(&self, key: &Key) -> Option<StoredObject<K>> {
        self.content.read().objects.stored(key.namespace.as_deref(), key.name.as_deref()).cloned()
    }

    /// All objects that can be decoded. Each is decoded when the iterator reaches it.
    pub fn all(&self) -> impl Iterator<Item = Arc<K>> {
        let all: Vec<_> = self.content.read().objects.stored_iter().cloned().collect();
        all.into_iter().filter_map(|stored| stored.read().ok())
    }

    /// The keys of all objects.
    pub fn keys(&self) -> Vec<Key> {
        let content = self.content.read();
        content.objects.names().map(|(namespace, name)| shared(namespace, name)).collect()
    }

    /// Returns the keys of up to `most` objects whose summary is wanted, from one namespace or all.
    pub fn select(
        &self,
        namespace: Option<Namespace<&str>>,
        most: usize,
        is_wanted: impl Fn(Namespace<&str>, &S) -> bool,
    ) -> Vec<Key> {
        let content = self.content.read();
        let wanted = |(within, name, summary): (&Namespace, &Name, &S)| {
            is_wanted(within.as_deref(), summary).then(|| shared(within, name))
        };
        match namespace {
            Some(namespace) => {
                content.summaries.in_namespace(namespace).filter_map(wanted).take(most).collect()
            }
            None => content.summaries.iter().filter_map(wanted).take(most).collect(),
        }
    }

    /// Adds the objects of a namespace to a snapshot.
    pub fn share(&self, namespace: Namespace<&str>, snapshot: &mut Objects<K>) {
        snapshot.adopt(namespace, &self.content.read().objects);
    }

    /// Adds the summaries of a namespace to a snapshot.
    pub fn share_summaries(&self, namespace: Namespace<&str>, snapshot: &mut Summaries<S>) {
        snapshot.adopt(namespace, &self.content.read().summaries);
    }

    /// Adds one object to a snapshot.
    pub fn share_one(&self, key: &Key, snapshot: &mut Objects<K>) {
        snapshot.adopt_one(key.namespace.as_deref(), key.name.as_deref(), &self.content.read().objects);
    }

    /// All objects, for a snapshot.
    pub fn share_all(&self) -> Objects<K> {
        self.content.read().objects.clone()
    }

    /// Stores an object that a watch reported. Returns `None` if the cache has this version or a newer one, because a watch
    /// may lag behind our own writes.
    pub fn set<'a>(&self, object: &'a K) -> Option<Change<'a, K, S>> {
        self.take_over(object, None, None)
    }

    /// Like [`Self::set`], for an object that was decoded from this text, completely or only its metadata. The text is
    /// stored, so the object need not be serialized.
    pub fn set_read<'a>(&self, object: &'a K, text: &str) -> Option<Change<'a, K, S>> {
        self.take_over(object, Some(text), None)
    }

    /// Returns a mark for [`Self::set_response`]. The caller gets it before it sends the request.
    pub fn sending(&self) -> DeletionMark {
        self.content.read().deletions.mark()
    }

    /// Like [`Self::set`], for the response to a request that was sent at `sent`. Also returns `None` if the object was
    /// deleted since then: the watch was faster than the response, and will not report the deletion again.
    pub fn set_response<'a>(&self, object: &'a K, sent: DeletionMark) -> Option<Change<'a, K, S>> {
        self.take_over(object, None, Some(sent))
    }

    fn take_over<'a>(
        &self,
        object: &'a K,
        text: Option<&str>,
        sent: Option<DeletionMark>,
    ) -> Option<Change<'a, K, S>> {
        let metadata = object.metadata();
        let (namespace, name) = (Namespace::of(metadata), Name::of(metadata));
        // The summary is computed before the lock is taken.
        let summary = (self.layout.summary)(object).map(Arc::new);
        let mut content = self.content.write();
        if sent.is_some_and(|sent| content.deletions.may_have(&Version::of(metadata), sent)) {
            return None;
        }
        let Content { objects, summaries, .. } = &mut *content;
        if objects.knows(metadata) {
            return None;
        }
        let old = match objects.stored(namespace, name) {
            Some(StoredObject::Decoded(old)) => Some(Arc::clone(old)),
            _ => None,
        };
        // Compressed under the lock, in microseconds: versions must be stored in the order in which they were compared.
        objects.store(metadata, self.to_store(object, text));
        let before = summary.as_ref().and_then(|now| summaries.insert(namespace, name, Arc::clone(now)));
        Some(Change { key: Key::new(namespace, name), old, new: Some(object), summaries: [before, summary] })
    }

    /// Whether the cache has this version of an object, or a newer one.
    pub fn knows(&self, metadata: &ObjectMeta) -> bool {
        self.content.read().objects.knows(metadata)
    }

    /// Records that an object exists and cannot be decoded. Its summary stays as it was. Returns false if the cache has this
    /// version or a newer one.
    pub fn set_unreadable(&self, metadata: &ObjectMeta, reason: String) -> bool {
        let mut content = self.content.write();
        if content.objects.knows(metadata) {
            return false;
        }
        content.objects.store(metadata, StoredObject::unreadable(metadata, reason));
        true
    }

    /// Removes a deleted object, unless another object with its name was created since.
    pub fn remove(&self, metadata: &ObjectMeta) -> Option<Change<'static, K, S>> {
        let (key, gone) = (Key::of_metadata(metadata), Version::of(metadata));
        let taken = {
            let mut content = self.content.write();
            content.deletions.add(gone.clone());
            let known = content.objects.stored(key.namespace.as_deref(), key.name.as_deref())?;
            if !known.version().is_same_object(&gone) {
                return None;
            }
            content.take_out(&key)
        };
        taken.map(RemovedObject::into_change)
    }

    /// Removes all objects (of one namespace, if given) except those that are `present` in a new list. A list does not show
    /// what was created and deleted since the last one, so responses to earlier requests are no longer stored.
    pub fn retain(
        &self,
        namespace: Option<Namespace<&str>>,
        present: &BTreeSet<Key>,
    ) -> Vec<Change<'static, K, S>> {
        let removed: Vec<_> = {
            let mut content = self.content.write();
            content.deletions.clear();
            let all = content.objects.names();
            let all = all.filter(|(within, _)| namespace.is_none_or(|one| one == within.as_deref()));
            let keys = all.map(|(namespace, name)| shared(namespace, name));
            let gone: Vec<Key> = keys.filter(|key| !present.contains(key)).collect();
            // Under the same lock: a response that is stored in between is newer than the list.
            gone.iter().filter_map(|key| content.take_out(key)).collect()
        };
        removed.into_iter().map(RemovedObject::into_change).collect()
    }

    /// Returns an object in its stored form. The decoded object is copied, because its own vectors have spare capacity.
    fn to_store(&self, object: &K, text: Option<&str>) -> StoredObject<K> {
        if (self.layout.is_compressed)(object) && object.metadata().managed_fields.is_none() {
            let [written, received] = &self.dictionaries;
            let (text, dictionary) = match text {
                Some(text) => (Ok(Cow::Borrowed(text)), received),
                None => (serde_json::to_string(object).map(Cow::Owned), written),
            };
            // This program received the object as JSON, so it can always be serialized.
            if let Ok(text) = text {
                let is_typical = (self.layout.is_typical)(object);
                let compressed = StoredObject::compress(object.metadata(), &text, dictionary, is_typical);
                debug_assert!(self.matches_object(&compressed, object), "its text does not say {object:?}");
                return compressed;
            }
        }
        let mut object = object.clone();
        object.metadata_mut().managed_fields = None;
        StoredObject::Decoded(Arc::new(object))
    }

    /// Whether the compressed text matches the decoded object. If only metadata was decoded, the rest may be unreadable.
    fn matches_object(&self, compressed: &StoredObject<K>, object: &K) -> bool {
        match (compressed.read(), self.layout.from_metadata) {
            (Ok(read), Some(make)) => *read == *object || make(read.metadata().clone()) == *object,
            (Ok(read), None) => *read == *object,
            (Err(_), from_metadata) => from_metadata.is_some(),
        }
    }
}

/// Creates a key that shares stored texts.
fn shared(namespace: &Namespace, name: &Name) -> Key {
    Key { namespace: namespace.clone(), name: name.clone() }
}

// === impl Content ===

impl<K, S> Content<K, S> {
    fn take_out(&mut self, key: &Key) -> Option<RemovedObject<K, S>> {
        let object = self.objects.remove(key.namespace.as_deref(), key.name.as_deref())?;
        Some(RemovedObject {
            key: key.clone(),
            object,
            summary: self.summaries.remove(key.namespace.as_deref(), key.name.as_deref()),
        })
    }
}

// === impl RemovedObject ===

impl<K: Metadata<Ty = ObjectMeta>, S> RemovedObject<K, S> {
    fn into_change(self) -> Change<'static, K, S> {
        Change { key: self.key, old: self.object.read().ok(), new: None, summaries: [self.summary, None] }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
    use longboat_key::{Name, Namespace};

    use super::{Cache, Key, Layout};
    use crate::deletions::DELETION_LOG_LIMIT;

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

    fn cache() -> Cache<ConfigMap, ()> {
        Cache::new(Layout {
            is_compressed: |object| object.immutable == Some(true),
            is_typical: |_| true,
            summary: |_| None,
            from_metadata: None,
        })
    }

    #[test]
    fn an_older_version_does_not_replace_a_newer_one() {
        let cache = cache();
        assert!(cache.set(&object("a", "1", "10")).is_some());
        assert!(cache.set(&object("a", "1", "9")).is_none());
        assert!(cache.set(&object("a", "1", "10")).is_none());
        assert!(cache.set(&object("a", "1", "11")).is_some());
        assert!(cache.set(&object("a", "2", "5")).is_some());
    }

    #[test]
    fn a_newer_version_is_one_of_the_same_object() {
        let cache = cache();
        cache.set(&object("a", "1", "10"));
        let newer = |uid: &str, version: &str| cache.newer(&object("a", uid, version).metadata);
        let known = newer("1", "9").expect("the cache is ahead");
        assert_eq!(known.metadata.resource_version.as_deref(), Some("10"));
        assert!(newer("1", "10").is_none(), "the same");
        assert!(newer("1", "11").is_none(), "the cache is behind");
        assert!(newer("2", "9").is_none(), "another object of the name");
    }

    #[test]
    fn a_late_deletion_leaves_the_successor_alone() {
        let cache = cache();
        cache.set(&object("a", "2", "5"));
        assert!(cache.remove(&object("a", "1", "4").metadata).is_none());
        assert_eq!(cache.keys().len(), 1);
    }

    #[test]
    fn a_response_after_the_deletion_does_not_bring_the_object_back() {
        let cache = cache();
        cache.set(&object("a", "1", "10"));
        let sent = cache.sending();
        assert!(cache.remove(&object("a", "1", "12").metadata).is_some());
        assert!(cache.set_response(&object("a", "1", "11"), sent).is_none());
        assert!(cache.keys().is_empty());
        // A new object with the same name is another object, and a request that is sent now returns the current state.
        assert!(cache.set_response(&object("a", "2", "13"), sent).is_some());
        assert!(cache.set_response(&object("a", "1", "14"), cache.sending()).is_some());
        // A watch reports events in order.
        assert!(cache.remove(&object("a", "1", "15").metadata).is_some());
        assert!(cache.set(&object("a", "1", "16")).is_some());
    }

    #[test]
    fn a_response_from_before_a_new_list_is_not_stored_after_it() {
        let cache = cache();
        cache.set(&object("b", "2", "2"));
        let sent = cache.sending();
        assert_eq!(cache.retain(None, &BTreeSet::new()).len(), 1);
        assert!(cache.set_response(&object("a", "1", "15"), sent).is_none());
        assert!(cache.set_response(&object("b", "2", "3"), sent).is_none());
        cache.remove(&object("c", "3", "16").metadata);
        assert!(cache.set_response(&object("a", "1", "15"), sent).is_none());
        assert!(cache.set_response(&object("a", "1", "17"), cache.sending()).is_some());
        assert!(cache.set(&object("b", "2", "18")).is_some());
    }

    #[test]
    fn a_deletion_is_remembered_of_an_object_that_was_not_known() {
        let cache = cache();
        let sent = cache.sending();
        assert!(cache.remove(&object("a", "1", "12").metadata).is_none());
        assert!(cache.set_response(&object("a", "1", "11"), sent).is_none());
    }

    #[test]
    fn after_more_deletions_than_are_remembered_no_response_is_stored() {
        let cache = cache();
        let sent = cache.sending();
        for number in 0..DELETION_LOG_LIMIT {
            cache.remove(&object("b", &format!("uid-{number}"), "5").metadata);
        }
        assert!(cache.set_response(&object("a", "1", "11"), sent).is_some());
        cache.remove(&object("b", "one more", "5").metadata);
        assert!(cache.set_response(&object("a", "1", "12"), sent).is_none());
        assert!(cache.set_response(&object("a", "1", "12"), cache.sending()).is_some());
    }

    #[test]
    fn a_new_list_removes_what_it_does_not_contain() {
        let cache = cache();
        cache.set(&object("a", "1", "1"));
        cache.set(&object("b", "2", "2"));
        let present = [object("b", "2", "2"), object("c", "3", "3")];
        assert!(cache.set(&present[0]).is_none());
        assert!(cache.set(&present[1]).is_some());
        let gone = cache.retain(None, &present.iter().map(Key::of).collect());
        assert_eq!(gone.len(), 1);
        assert_eq!(gone[0].old.as_deref(), Some(&object("a", "1", "1")));
        assert_eq!(cache.keys().len(), 2);
    }

    #[test]
    fn an_object_that_cannot_be_read_is_stored_as_such_until_a_newer_version_can() {
        let cache = cache();
        cache.set(&object("a", "1", "1"));
        let broken = object("a", "1", "2").metadata;
        assert!(cache.set_unreadable(&broken, "no map".into()));
        assert!(!cache.set_unreadable(&broken, "no map".into()) && cache.knows(&broken));
        assert!(cache.get(&Key::new(Namespace("ns"), Name("a"))).is_none());
        let mut snapshot = crate::Objects::default();
        cache.share(Namespace("ns"), &mut snapshot);
        assert!(snapshot.get(Namespace("ns"), Name("a")).is_none());
        assert_eq!(snapshot.unreadable(), [(Key::new(Namespace("ns"), Name("a")), "no map".to_owned())]);
        assert!(cache.set(&object("a", "1", "3")).is_some());
        assert!(cache.get(&Key::new(Namespace("ns"), Name("a"))).is_some());
    }

    #[test]
    fn a_change_of_a_compressed_object_does_not_tell_the_old_one() {
        let cache = cache();
        let compressed = |version: &str| ConfigMap { immutable: Some(true), ..object("a", "1", version) };
        cache.set(&compressed("1"));
        assert_eq!(cache.get(&Key::new(Namespace("ns"), Name("a"))).as_deref(), Some(&compressed("1")));
        assert!(cache.set(&compressed("2")).unwrap().old.is_none());
        let gone = cache.remove(&compressed("2").metadata).unwrap();
        assert_eq!(gone.old.as_deref(), Some(&compressed("2")));
    }
}
