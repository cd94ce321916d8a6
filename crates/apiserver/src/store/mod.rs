//! Objects in memory: one revision counter, one ordered table per resource, and a bounded window of past changes from which
//! watches read.
//!
//! A watch is a cursor into the window of its table, not a queue of its own. So a slow watcher costs nothing, and a watcher
//! that falls out of the window gets 410.

mod damage;
mod journal;
mod object;
mod table;
mod tree;

use std::{collections::HashMap, path::Path, sync::Arc};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use crate::depth::{self, DepthError};
use journal::Journal;
pub use journal::JournalError;
pub use object::{Key, StoredObject, fragment};
use table::Table;
pub use table::{Change, RevisionExpired};
pub use tree::Tree;

/// Parses a row of a journal. Returns an error that says why the row is unreadable.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn read_row(key: &[u8], value: &[u8]) -> Result<(), String> {
    journal::row(key, value).map(drop)
}

/// Why a write failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The object to create exists.
    #[error("the object exists")]
    Exists,
    /// The object to change does not exist (any more).
    #[error("the object does not exist")]
    Missing,
    /// The object is no longer at the expected revision.
    #[error("the object has changed in the meantime")]
    Changed,
    /// What the object to create belongs to does not exist or is being deleted.
    #[error("what the object belongs to is being deleted")]
    Leaving,
    /// The object is nested too deeply to be read back.
    #[error(transparent)]
    TooDeep(#[from] DepthError),
    /// The journal could not be written.
    #[error("the journal could not be written: {0}")]
    Journal(String),
}

/// A consistent view of a table, or of a part of it.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The store's revision at the time of the view.
    pub revision: u64,
    /// The objects, ordered by namespace and name.
    pub objects: Vec<(Key, Arc<StoredObject>)>,
}

/// The store of all objects.
#[derive(Debug)]
pub struct Store {
    inner: Mutex<Inner>,
    window: usize,
}

#[derive(Debug)]
struct Inner {
    revision: u64,
    /// The revision at the start of this process. Nothing is known about the changes before it.
    opened: u64,
    tables: HashMap<Arc<str>, Table>,
    journal: Option<Journal>,
}

enum Write {
    Put(Value),
    Remove,
}

// === impl Store ===

impl Store {
    /// Creates an empty store that keeps `window` changes per table for watches.
    pub(crate) fn in_memory(window: usize) -> Self {
        Self {
            inner: Mutex::new(Inner {
                // etcd starts at 1; no revision below the first write ever has objects
                revision: 1,
                opened: 0,
                tables: HashMap::new(),
                journal: None,
            }),
            window,
        }
    }

    /// Opens a store that keeps its objects in `directory`. Acknowledged writes survive the death of the process.
    pub(crate) fn persistent(directory: &Path, window: usize) -> Result<Self, JournalError> {
        let (journal, revision, objects) = Journal::open(directory)?;
        let mut tables: HashMap<Arc<str>, Table> = HashMap::new();
        for kept in objects {
            let table = tables.entry(Arc::from(kept.table)).or_insert_with(|| Table::new(revision));
            table.objects.insert(kept.key, Arc::new(StoredObject::new(kept.object, kept.revision)).kept());
        }
        let inner = Inner { revision, opened: revision, tables, journal: Some(journal) };
        Ok(Self { inner: Mutex::new(inner), window })
    }

    /// The revision of the last write.
    pub fn revision(&self) -> u64 {
        self.inner.lock().revision
    }

    /// Returns one object.
    pub fn get(&self, table: &str, key: &Key) -> Option<Arc<StoredObject>> {
        self.inner.lock().tables.get(table)?.objects.get(key).map(StoredObject::for_reader)
    }

    /// Returns the objects of a table, in one namespace or (`None`) in all.
    pub fn list(&self, table: &str, namespace: Option<&str>) -> Snapshot {
        let inner = self.inner.lock();
        Snapshot {
            revision: inner.revision,
            objects: inner.tables.get(table).map(|t| t.range(namespace)).unwrap_or_default(),
        }
    }

    /// Whether the objects of a table have more bytes as JSON than this. Looks at no more of them than it must.
    pub(crate) fn holds_more(&self, table: &str, namespace: Option<&str>, bytes: usize) -> bool {
        let inner = self.inner.lock();
        inner.tables.get(table).is_some_and(|table| table.holds_more(namespace, bytes))
    }

    /// Returns the objects as they were at `revision`, if the window reaches back that far.
    pub(crate) fn list_at(
        &self,
        table: &str,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<Snapshot, RevisionExpired> {
        let inner = self.inner.lock();
        let objects = match inner.tables.get(table) {
            Some(t) => t.range_at(namespace, revision)?,
            None => Table::new(inner.opened).range_at(namespace, revision)?,
        };
        Ok(Snapshot { revision, objects })
    }

    /// Creates a table. Watches that start before this moment are refused as too old.
    pub(crate) fn create_table(&self, table: &str) {
        let mut inner = self.inner.lock();
        let revision = inner.revision;
        inner.tables.entry(table.into()).or_insert_with(|| Table::new(revision));
    }

    /// Removes an (empty) table. Its watches end.
    pub(crate) fn drop_table(&self, table: &str) {
        self.inner.lock().tables.remove(table);
    }

    /// Stores a new object if the objects that it belongs to, given by their tables and keys, exist and are not being deleted.
    pub fn create(
        &self,
        table: &str,
        key: Key,
        value: Value,
        parents: &[(&str, Key)],
    ) -> Result<Arc<StoredObject>, WriteError> {
        depth::check(&value)?;
        let mut inner = self.inner.lock();
        // In one step with the write: webhooks were called since the request was checked, and a namespace may be going by now.
        if !parents.iter().all(|(table, key)| inner.is_live(table, key)) {
            return Err(WriteError::Leaving);
        }
        if inner.tables.get(table).is_some_and(|t| t.objects.contains_key(&key)) {
            return Err(WriteError::Exists);
        }
        self.write(&mut inner, table, key, Write::Put(value))
    }

    /// Replaces the object if it is at revision `expected`.
    pub fn update(
        &self,
        table: &str,
        key: Key,
        expected: u64,
        value: Value,
    ) -> Result<Arc<StoredObject>, WriteError> {
        depth::check(&value)?;
        let mut inner = self.inner.lock();
        inner.check(table, &key, expected)?;
        self.write(&mut inner, table, key, Write::Put(value))
    }

    /// Removes the object if it is at revision `expected`. Returns its last state.
    pub fn delete(&self, table: &str, key: Key, expected: u64) -> Result<Arc<StoredObject>, WriteError> {
        let mut inner = self.inner.lock();
        inner.check(table, &key, expected)?;
        self.write(&mut inner, table, key, Write::Remove)
    }

    /// Returns a signal of the table's changes, whose value is the table's last revision. The signal ends when the table is
    /// dropped.
    pub fn subscribe(&self, table: &str) -> watch::Receiver<u64> {
        // A watch may come before the first object of its kind.
        self.inner.lock().table(table).signal.subscribe()
    }

    /// Returns up to `most` changes of a table after `cursor`, and the cursor for the next call.
    pub fn changes(
        &self,
        table: &str,
        cursor: u64,
        most: usize,
    ) -> Result<(Vec<Change>, u64), RevisionExpired> {
        let inner = self.inner.lock();
        let Some(table) = inner.tables.get(table) else {
            return Ok((Vec::new(), cursor));
        };
        let changes = table.since(cursor, most)?;
        let next = if changes.len() < most {
            // this table has no changes between its last change and now
            inner.revision.max(cursor)
        } else {
            changes.last().map_or(cursor, |c| c.revision)
        };
        Ok((changes, next))
    }

    /// Returns the number of objects in a table.
    pub fn count(&self, table: &str) -> usize {
        self.inner.lock().tables.get(table).map_or(0, |t| t.objects.len())
    }

    fn write(
        &self,
        inner: &mut Inner,
        table: &str,
        key: Key,
        write: Write,
    ) -> Result<Arc<StoredObject>, WriteError> {
        let revision = inner.revision + 1;
        let before = inner.tables.get(table).and_then(|t| t.objects.get(&key)).cloned();
        let deleted = matches!(write, Write::Remove);
        let after = match (write, &before) {
            (Write::Put(value), _) => Arc::new(StoredObject::new(value, revision)),
            // A deletion has a revision of its own, from which watches go on.
            (Write::Remove, Some(before)) => Arc::new(before.for_reader().at(revision)),
            (Write::Remove, None) => return Err(WriteError::Missing),
        };
        // Before memory changes, so that a change that cannot be stored was never visible to anybody.
        if let Some(journal) = &mut inner.journal {
            let stored = (!deleted).then_some(&*after);
            journal
                .record(table, &key, (before.as_deref(), stored), revision)
                .map_err(|error| WriteError::Journal(error.to_string()))?;
        }
        inner.revision = revision;
        let target = inner.table(table);
        let kept = after.kept();
        if deleted {
            target.objects.remove(&key);
        } else {
            target.objects.insert(key.clone(), Arc::clone(&kept));
        }
        target.remember(Change { revision, key, before, after: kept, deleted }, self.window);
        Ok(after)
    }
}

// === impl Inner ===

impl Inner {
    /// Returns a table, which is created if it has no objects yet. Its window begins at the start of this process: a watch from
    /// before is too old, even if the table is empty now, because the process before may have deleted its objects.
    fn table(&mut self, table: &str) -> &mut Table {
        self.tables.entry(table.into()).or_insert_with(|| Table::new(self.opened))
    }

    /// Whether an object exists and is not being deleted.
    fn is_live(&self, table: &str, key: &Key) -> bool {
        let found = self.tables.get(table).and_then(|table| table.objects.get(key));
        found.is_some_and(|found| found.metadata()["deletionTimestamp"].is_null())
    }

    fn check(&self, table: &str, key: &Key, expected: u64) -> Result<(), WriteError> {
        let found = self.tables.get(table).and_then(|t| t.objects.get(key)).ok_or(WriteError::Missing)?;
        if found.revision == expected { Ok(()) } else { Err(WriteError::Changed) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_watch_from_before_a_restart_is_too_old_even_if_its_table_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::persistent(folder.path(), 16).unwrap();
        let key = Key::new("", "a");
        let created = store.create("t", key.clone(), json!({"metadata": {"name": "a"}}), &[]).unwrap();
        store.delete("t", key, created.revision).unwrap();
        drop(store);
        let store = Store::persistent(folder.path(), 16).unwrap();
        let _signal = store.subscribe("t");
        assert!(store.changes("t", created.revision, 16).is_err(), "the deletion would never be seen");
        assert!(store.list_at("t", None, created.revision).is_err());
        assert!(store.list_at("other", None, created.revision).is_err());
        assert!(store.changes("t", store.revision(), 16).is_ok());
    }

    #[test]
    fn an_object_is_only_created_while_what_it_belongs_to_stays() {
        let store = Store::in_memory(16);
        let (parents, children): (Arc<str>, Arc<str>) = (Arc::from("parents"), Arc::from("children"));
        let parent = Key::new("", "parent");
        let create = |name: &str| {
            let named = json!({"metadata": {"name": name}});
            store.create(&children, Key::new("", name), named, &[(&parents, parent.clone())]).map(drop)
        };
        assert_eq!(create("before"), Err(WriteError::Leaving));
        let object = json!({"metadata": {"name": "parent"}});
        let stored = store.create(&parents, parent.clone(), object, &[]).unwrap();
        assert_eq!(create("meanwhile"), Ok(()));
        let leaving = json!({"metadata": {"name": "parent", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
        store.update(&parents, parent.clone(), stored.revision, leaving).unwrap();
        assert_eq!(create("after"), Err(WriteError::Leaving));
        assert_eq!(store.count(&children), 1);
    }
}
