//! One table: its objects, and the window of its past changes.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use tokio::sync::watch;

use super::object::{Key, StoredObject};

/// The most bytes of past objects in the window of a table: some ten changes of the largest object, and a thousand of a usual one.
const MAX_WINDOW_BYTES: usize = 16 * 1024 * 1024;

/// A past change.
#[derive(Debug, Clone)]
pub struct Change {
    /// The revision of the change.
    pub revision: u64,
    /// The object's key.
    pub key: Key,
    /// The object before the change; `None` if the change created it.
    pub before: Option<Arc<StoredObject>>,
    /// The object after the change. For a deletion, this is the last state, with the revision of the deletion.
    pub after: Arc<StoredObject>,
    /// Whether this was a deletion.
    pub deleted: bool,
}

/// The requested revision is older than the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {asked} ({oldest})")]
pub struct RevisionExpired {
    /// The requested revision.
    pub asked: u64,
    /// The oldest revision that a watch can start from.
    pub oldest: u64,
}

#[derive(Debug)]
pub(super) struct Table {
    pub(super) objects: BTreeMap<Key, Arc<StoredObject>>,
    pub(super) signal: watch::Sender<u64>,
    history: VecDeque<Change>,
    /// The sum of [`retained_bytes`] of the history.
    history_bytes: usize,
    /// The last revision that has fallen out of the window.
    forgotten: u64,
}

// === impl Table ===

impl Table {
    pub(super) fn new(revision: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            signal: watch::Sender::new(revision),
            history: VecDeque::new(),
            history_bytes: 0,
            forgotten: revision,
        }
    }

    pub(super) fn range(&self, namespace: Option<&str>) -> Vec<(Key, Arc<StoredObject>)> {
        let copy = |(key, stored): (&Key, &Arc<StoredObject>)| (key.clone(), stored.for_reader());
        self.within(namespace).map(copy).collect()
    }

    /// Whether the objects have more bytes as JSON than this.
    pub(super) fn holds_more(&self, namespace: Option<&str>, bytes: usize) -> bool {
        let mut left = bytes;
        self.within(namespace).any(|(_, stored)| {
            let rest = left.checked_sub(stored.json_bytes());
            left = rest.unwrap_or_default();
            rest.is_none()
        })
    }

    fn within(&self, namespace: Option<&str>) -> impl Iterator<Item = (&Key, &Arc<StoredObject>)> {
        let first = namespace.map_or(Bound::Unbounded, |name| Bound::Included(Key::new(name, "")));
        let is_inside = move |key: &Key| namespace.is_none_or(|name| key.namespace == name);
        self.objects.range((first, Bound::Unbounded)).take_while(move |(key, _)| is_inside(key))
    }

    /// Returns the objects at an earlier revision: the current objects with the later changes undone.
    pub(super) fn range_at(
        &self,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<Vec<(Key, Arc<StoredObject>)>, RevisionExpired> {
        self.check(revision)?;
        let mut objects: BTreeMap<Key, Arc<StoredObject>> = self.range(namespace).into_iter().collect();
        for change in self.history.iter().rev().take_while(|c| c.revision > revision) {
            if namespace.is_some_and(|n| n != change.key.namespace) {
                continue;
            }
            match &change.before {
                Some(before) => objects.insert(change.key.clone(), before.for_reader()),
                None => objects.remove(&change.key),
            };
        }
        Ok(objects.into_iter().collect())
    }

    pub(super) fn since(&self, cursor: u64, most: usize) -> Result<Vec<Change>, RevisionExpired> {
        self.check(cursor)?;
        let start = self.history.partition_point(|c| c.revision <= cursor);
        let changes = self.history.range(start..).take(most);
        Ok(changes
            .map(|change| Change {
                before: change.before.as_ref().map(StoredObject::for_reader),
                after: change.after.for_reader(),
                ..change.clone()
            })
            .collect())
    }

    pub(super) fn remember(&mut self, change: Change, window: usize) {
        let revision = change.revision;
        self.history_bytes += retained_bytes(&change);
        self.history.push_back(change);
        while self.history.len() > window || self.history_bytes > MAX_WINDOW_BYTES {
            let Some(oldest) = self.history.pop_front() else { break };
            self.history_bytes -= retained_bytes(&oldest);
            self.forgotten = oldest.revision;
        }
        self.signal.send_replace(revision);
    }

    fn check(&self, revision: u64) -> Result<(), RevisionExpired> {
        if revision < self.forgotten {
            Err(RevisionExpired { asked: revision, oldest: self.forgotten })
        } else {
            Ok(())
        }
    }
}

/// The bytes that the window keeps for a change. Its new object is in the table, or in the next change of the object, unless the
/// change was a deletion.
fn retained_bytes(change: &Change) -> usize {
    let before = change.before.as_ref().map_or(0, |before| before.value.bytes());
    let after = if change.deleted { change.after.value.bytes() } else { 0 };
    before + after
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::Store, *};

    #[test]
    fn large_objects_leave_the_window_before_small_ones() {
        let store = Store::in_memory(1024);
        let filled = |bytes: usize| {
            let table: Arc<str> = Arc::from(format!("of-{bytes}"));
            let key = Key::new("", "a");
            let value = |text: usize| json!({"metadata": {"name": "a"}, "data": {"a": text.to_string().repeat(bytes)}});
            let mut last = store.create(&table, key.clone(), value(0), &[]).unwrap();
            let first = last.revision;
            for change in 1..200 {
                last = store.update(&table, key.clone(), last.revision, value(change % 10)).unwrap();
            }
            let kept = store.inner.lock().tables[&table].history.iter().map(retained_bytes).sum::<usize>();
            assert!(kept <= MAX_WINDOW_BYTES && store.changes(&table, last.revision - 5, 100).is_ok());
            (store.changes(&table, first, 1).is_ok(), kept)
        };
        assert!(filled(1000).0, "the count alone bounds the window of small objects");
        let (reaches_back, kept) = filled(1_000_000);
        assert!(!reaches_back && kept > MAX_WINDOW_BYTES / 2, "{kept}");
    }
}
