//! One table: its objects, and the window of its past changes.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use tokio::sync::watch;

use super::{Change, Key, RevisionExpired, StoredObject};

#[derive(Debug)]
pub(super) struct Table {
    pub(super) objects: BTreeMap<Key, Arc<StoredObject>>,
    pub(super) signal: watch::Sender<u64>,
    history: VecDeque<Change>,
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
            forgotten: revision,
        }
    }

    pub(super) fn range(&self, namespace: Option<&str>) -> Vec<(Key, Arc<StoredObject>)> {
        let copy = |(key, stored): (&Key, &Arc<StoredObject>)| (key.clone(), stored.for_reader());
        match namespace {
            None => self.objects.iter().map(copy).collect(),
            Some(namespace) => self
                .objects
                .range((Bound::Included(Key::new(namespace, "")), Bound::Unbounded))
                .take_while(|(key, _)| key.namespace == namespace)
                .map(copy)
                .collect(),
        }
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
        self.history.push_back(change);
        while self.history.len() > window {
            if let Some(oldest) = self.history.pop_front() {
                self.forgotten = oldest.revision;
            }
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
