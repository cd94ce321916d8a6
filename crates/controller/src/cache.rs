//! Objects as the watches last reported them.

use std::{
    borrow::Cow,
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use longboat_plan::{Edition, Kept, Key, Objects, Peer, Peers, Sample};
use parking_lot::RwLock;

use crate::watch::Watched;

/// How many deletions are remembered for responses that are on their way. After more of them it is not known whether the object of a
/// response was deleted meanwhile.
const REMEMBERED: usize = 1024;

/// The objects of one kind by namespace and name.
#[derive(Debug)]
pub(crate) struct Cache<K> {
    content: RwLock<Content<K>>,
    /// Dictionaries for compression: one for JSON that this program writes, one for JSON of API servers.
    samples: [Sample; 2],
}

#[derive(Debug)]
struct Content<K> {
    objects: Objects<K>,
    /// The part of them that other services depend on.
    peers: Peers,
    /// The last deleted objects, and how many were deleted so far.
    removed: VecDeque<Edition>,
    removals: u64,
}

/// What was removed, to be decoded after the lock is released.
struct Taken<K> {
    object: Kept<K>,
    peer: Option<Arc<Peer>>,
}

/// When a request was sent, as the number of deletions until then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked(u64);

/// A change of an object.
#[derive(Debug)]
pub(crate) struct Change<'a, K> {
    /// The object before; none for objects that are stored as text and still exist.
    pub(crate) old: Option<Arc<K>>,
    pub(crate) new: Option<&'a K>,
    /// What other services depend on, before and after.
    pub(crate) peers: [Option<Arc<Peer>>; 2],
}

// === impl Cache ===

impl<K> Default for Cache<K> {
    fn default() -> Self {
        let content = Content {
            objects: Objects::default(),
            peers: Peers::default(),
            removed: VecDeque::new(),
            removals: 0,
        };
        Self { content: RwLock::new(content), samples: Default::default() }
    }
}

impl<K: Watched> Cache<K> {
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.kept(key)?.open()
    }

    /// The object of that metadata in a newer version, if one is known.
    pub(crate) fn newer(&self, metadata: &ObjectMeta) -> Option<Arc<K>> {
        let kept = self.kept(&Key::of_metadata(metadata))?;
        let (present, known) = (kept.edition(), Edition::of(metadata));
        let is_newer = present.is_of_same(&known) && present.is_newer(&known);
        if is_newer { kept.open() } else { None }
    }

    /// The metadata of an object; the rest is not decoded.
    pub(crate) fn metadata(&self, key: &Key) -> Option<ObjectMeta> {
        self.kept(key)?.metadata().map(Cow::into_owned)
    }

    fn kept(&self, key: &Key) -> Option<Kept<K>> {
        self.content.read().objects.kept(&key.namespace, &key.name).cloned()
    }

    /// All objects. Each is decoded when the iterator reaches it.
    pub(crate) fn all(&self) -> impl Iterator<Item = Arc<K>> {
        let all: Vec<_> = self.content.read().objects.kept_iter().cloned().collect();
        all.into_iter().filter_map(|kept| kept.open())
    }

    /// The keys of all objects.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let content = self.content.read();
        content.objects.names().map(|(namespace, name)| Key::shared(namespace, name)).collect()
    }

    /// The keys of at most `most` objects, of one namespace if given, whose [`Peer`] is wanted.
    pub(crate) fn select(
        &self,
        namespace: Option<&str>,
        most: usize,
        is_wanted: impl Fn(&str, &Peer) -> bool,
    ) -> Vec<Key> {
        let content = self.content.read();
        let wanted = |(within, name, peer): (&Arc<str>, &Arc<str>, &Peer)| {
            is_wanted(within, peer).then(|| Key::shared(within, name))
        };
        match namespace {
            Some(namespace) => content.peers.in_namespace(namespace).filter_map(wanted).take(most).collect(),
            None => content.peers.iter().filter_map(wanted).take(most).collect(),
        }
    }

    /// Adds the objects of a namespace to a snapshot.
    pub(crate) fn share(&self, namespace: &str, snapshot: &mut Objects<K>) {
        snapshot.adopt(namespace, &self.content.read().objects);
    }

    /// Adds the peers of a namespace to a snapshot.
    pub(crate) fn share_peers(&self, namespace: &str, snapshot: &mut Peers) {
        snapshot.adopt(namespace, &self.content.read().peers);
    }

    /// Adds one object to a snapshot.
    pub(crate) fn share_one(&self, key: &Key, snapshot: &mut Objects<K>) {
        snapshot.adopt_one(&key.namespace, &key.name, &self.content.read().objects);
    }

    /// All objects, for a snapshot.
    pub(crate) fn share_all(&self) -> Objects<K> {
        self.content.read().objects.clone()
    }

    /// Stores an object that a watch reported. Returns none when this version or a newer one is known: a watch may lag behind our own
    /// writes.
    pub(crate) fn set<'a>(&self, object: &'a K) -> Option<Change<'a, K>> {
        self.take_over(object, None, None)
    }

    /// As [`Self::set`], of an object that was decoded from this text, perhaps only its metadata. The text is stored, so the object need
    /// not be serialized.
    pub(crate) fn set_read<'a>(&self, object: &'a K, text: &str) -> Option<Change<'a, K>> {
        self.take_over(object, Some(text), None)
    }

    /// To be called before a request, for [`Self::set_answer`].
    pub(crate) fn asking(&self) -> Asked {
        Asked(self.content.read().removals)
    }

    /// As [`Self::set`], from the response to a request that was sent at that time. Returns none also when the object was deleted since
    /// then: the watch was faster than the response, and will not report the deletion again.
    pub(crate) fn set_answer<'a>(&self, object: &'a K, asked: Asked) -> Option<Change<'a, K>> {
        self.take_over(object, None, Some(asked))
    }

    fn take_over<'a>(
        &self,
        object: &'a K,
        text: Option<&str>,
        asked: Option<Asked>,
    ) -> Option<Change<'a, K>> {
        let metadata = object.metadata();
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let name = metadata.name.as_deref().unwrap_or_default();
        // Before the lock is taken.
        let peer = object.peer().map(Arc::new);
        let mut content = self.content.write();
        if asked.is_some_and(|asked| content.was_removed(&Edition::of(metadata), asked)) {
            return None;
        }
        let Content { objects, peers, .. } = &mut *content;
        let old = objects.kept(namespace, name);
        if old.is_some_and(|old| !Edition::of(metadata).is_newer(&old.edition())) {
            return None;
        }
        let old = old.and_then(|old| match old {
            Kept::Whole(old) => Some(Arc::clone(old)),
            Kept::Packed(_) => None,
        });
        objects.keep(metadata, self.to_keep(object, text));
        let before = peer.as_ref().and_then(|peer| peers.insert(namespace, name, Arc::clone(peer)));
        Some(Change { old, new: Some(object), peers: [before, peer] })
    }

    /// Whether this version of an object, or a newer one, is known.
    pub(crate) fn knows(&self, metadata: &ObjectMeta) -> bool {
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let name = metadata.name.as_deref().unwrap_or_default();
        let content = self.content.read();
        let known = content.objects.kept(namespace, name);
        known.is_some_and(|known| !Edition::of(metadata).is_newer(&known.edition()))
    }

    /// Removes an object that was deleted, unless another one of its name was created since.
    pub(crate) fn remove(&self, metadata: &ObjectMeta) -> Option<Change<'static, K>> {
        let (key, gone) = (Key::of_metadata(metadata), Edition::of(metadata));
        let taken = {
            let mut content = self.content.write();
            content.note_removal(gone.clone());
            let known = content.objects.kept(&key.namespace, &key.name)?;
            if !known.edition().is_of_same(&gone) {
                return None;
            }
            content.take_out(&key)
        };
        taken?.into_change()
    }

    /// Removes all objects (of one namespace, if given) but these. A new list does not say what was created and deleted since the last
    /// one, so no response to an earlier request is stored any more.
    pub(crate) fn retain(&self, namespace: Option<&str>, present: &BTreeSet<Key>) -> Vec<Change<'static, K>> {
        let gone: Vec<Key> = {
            let mut content = self.content.write();
            content.forget_removals();
            let all = content.objects.names();
            let all = all.filter(|(within, _)| namespace.is_none_or(|one| one == &***within));
            let keys = all.map(|(namespace, name)| Key::shared(namespace, name));
            keys.filter(|key| !present.contains(key)).collect()
        };
        let take_out = |key: &Key| self.content.write().take_out(key);
        gone.iter().filter_map(|key| take_out(key)?.into_change()).collect()
    }

    /// An object in the form in which it is stored. A copy is stored rather than the decoded object, whose vectors have spare capacity.
    fn to_keep(&self, object: &K, text: Option<&str>) -> Kept<K> {
        if object.is_packed() && object.metadata().managed_fields.is_none() {
            let [printed, received] = &self.samples;
            let packed = match text {
                Some(text) => Ok(Kept::of_text(object, text.as_bytes(), received, object.is_typical())),
                None => Kept::packed(object, printed, object.is_typical()),
            };
            // An object that cannot be serialized was never received.
            if let Ok(packed) = packed {
                let is_said = |said: &K| {
                    said == object
                        || K::FROM_METADATA.is_some_and(|make| make(said.metadata().clone()) == *object)
                };
                debug_assert!(
                    packed.open().as_deref().is_some_and(is_said),
                    "its text does not say {object:?}"
                );
                return packed;
            }
        }
        let mut object = object.clone();
        object.metadata_mut().managed_fields = None;
        Kept::Whole(Arc::new(object))
    }
}

// === impl Content ===

impl<K: Watched> Content<K> {
    fn take_out(&mut self, key: &Key) -> Option<Taken<K>> {
        let object = self.objects.remove(&key.namespace, &key.name)?;
        Some(Taken { object, peer: self.peers.remove(&key.namespace, &key.name) })
    }

    fn note_removal(&mut self, gone: Edition) {
        if self.removed.len() == REMEMBERED {
            self.removed.pop_front();
        }
        self.removed.push_back(gone);
        self.removals += 1;
    }

    /// Any object may have been deleted until now.
    fn forget_removals(&mut self) {
        self.removed.clear();
        self.removals += 1;
    }

    /// Whether an object was deleted after a request was sent, or may have been.
    fn was_removed(&self, object: &Edition, asked: Asked) -> bool {
        let since = usize::try_from(self.removals - asked.0).unwrap_or(usize::MAX);
        since > self.removed.len()
            || self.removed.iter().rev().take(since).any(|gone| gone.is_of_same(object))
    }
}

// === impl Taken ===

impl<K: Watched> Taken<K> {
    fn into_change(self) -> Option<Change<'static, K>> {
        Some(Change { old: Some(self.object.open()?), new: None, peers: [self.peer, None] })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};

    use super::{Cache, Key, REMEMBERED};

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
    fn a_newer_version_is_one_of_the_same_object() {
        let cache = Cache::default();
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
        let cache = Cache::default();
        cache.set(&object("a", "2", "5"));
        assert!(cache.remove(&object("a", "1", "4").metadata).is_none());
        assert_eq!(cache.keys().len(), 1);
    }

    #[test]
    fn an_answer_that_comes_after_the_removal_does_not_bring_the_object_back() {
        let cache = Cache::default();
        cache.set(&object("a", "1", "10"));
        let asked = cache.asking();
        assert!(cache.remove(&object("a", "1", "12").metadata).is_some());
        assert!(cache.set_answer(&object("a", "1", "11"), asked).is_none());
        assert!(cache.keys().is_empty());
        // Its successor is another object, and who asks now is told of what is there now.
        assert!(cache.set_answer(&object("a", "2", "13"), asked).is_some());
        assert!(cache.set_answer(&object("a", "1", "14"), cache.asking()).is_some());
        // A watch says things in their order.
        assert!(cache.remove(&object("a", "1", "15").metadata).is_some());
        assert!(cache.set(&object("a", "1", "16")).is_some());
    }

    #[test]
    fn what_came_and_went_unseen_before_a_new_list_is_not_believed_after_it() {
        let cache = Cache::default();
        cache.set(&object("b", "2", "2"));
        let asked = cache.asking();
        assert_eq!(cache.retain(None, &BTreeSet::new()).len(), 1);
        assert!(cache.set_answer(&object("a", "1", "15"), asked).is_none());
        assert!(cache.set_answer(&object("b", "2", "3"), asked).is_none());
        cache.remove(&object("c", "3", "16").metadata);
        assert!(cache.set_answer(&object("a", "1", "15"), asked).is_none());
        assert!(cache.set_answer(&object("a", "1", "17"), cache.asking()).is_some());
        assert!(cache.set(&object("b", "2", "18")).is_some());
    }

    #[test]
    fn what_is_gone_is_known_to_be_even_before_it_was_known() {
        let cache = Cache::default();
        let asked = cache.asking();
        assert!(cache.remove(&object("a", "1", "12").metadata).is_none());
        assert!(cache.set_answer(&object("a", "1", "11"), asked).is_none());
    }

    #[test]
    fn after_more_removals_than_are_remembered_no_answer_is_believed() {
        let cache = Cache::default();
        let asked = cache.asking();
        for number in 0..REMEMBERED {
            cache.remove(&object("b", &format!("uid-{number}"), "5").metadata);
        }
        assert!(cache.set_answer(&object("a", "1", "11"), asked).is_some());
        cache.remove(&object("b", "one more", "5").metadata);
        assert!(cache.set_answer(&object("a", "1", "12"), asked).is_none());
        assert!(cache.set_answer(&object("a", "1", "12"), cache.asking()).is_some());
    }

    #[test]
    fn a_new_list_drops_what_it_does_not_hold() {
        let cache = Cache::default();
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
}
