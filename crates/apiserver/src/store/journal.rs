//! The journal: the objects of a store on disk, in one redb file.
//!
//! When the journal is opened, unreadable rows are logged and stay in the file; all other objects are loaded. After a failed
//! write, redb refuses all further writes. So the next write opens the file again, and writes succeed as soon as the disk
//! has space.

use std::path::{Path, PathBuf};

use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition};
use serde_json::Value;

use super::{
    damage::catch_panic,
    object::{Key, StoredObject},
};

/// `table \0 namespace \0 name` → revision (8 bytes, big endian) and the object as JSON.
const OBJECTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("objects");
/// `revision` → the last revision handed out, deletions included.
const COUNTERS: TableDefinition<'_, &str, u64> = TableDefinition::new("counters");

/// Why the state directory could not be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The directory could not be created.
    #[error("cannot make {}", .path.display())]
    Directory {
        /// The path of the directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The file is not one that a store has written, or not as it was written.
    #[error(
        "{} is damaged ({why}): restore a copy of this file, or remove it to start without objects",
        .path.display()
    )]
    Damaged {
        /// The path of the file.
        path: PathBuf,
        /// The damage.
        why: String,
    },
    /// The database returned an error.
    #[error("cannot use {}", .path.display())]
    Database {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<redb::Error>,
    },
}

/// Opens the file. Tests replace the backend by a disk that can be full.
pub(super) type OpenDatabase = fn(&Path) -> Result<Database, DatabaseError>;

#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    open: OpenDatabase,
    /// `None` after a failed write.
    database: Option<Database>,
    /// The previous row of the object whose write failed. That write may have reached the disk all the same.
    unsure: Option<Row>,
}

/// The row that one change writes.
#[derive(Debug)]
struct Row {
    key: Vec<u8>,
    /// `None` if there is no object.
    value: Option<Vec<u8>>,
    /// The revision of the store.
    revision: u64,
}

/// A stored object.
#[derive(Debug)]
pub(super) struct JournalRecord {
    pub(super) table: String,
    pub(super) key: Key,
    pub(super) object: Value,
    pub(super) revision: u64,
}

// === impl Journal ===

impl Journal {
    pub(super) fn open(directory: &Path) -> Result<(Self, u64, Vec<JournalRecord>), JournalError> {
        Self::open_with(directory, |path| Database::create(path))
    }

    pub(super) fn open_with(
        directory: &Path,
        open: OpenDatabase,
    ) -> Result<(Self, u64, Vec<JournalRecord>), JournalError> {
        std::fs::create_dir_all(directory)
            .map_err(|source| JournalError::Directory { path: directory.to_owned(), source })?;
        let path = directory.join("apiserver.redb");
        let failed = |source: redb::Error| match source {
            redb::Error::Corrupted(why) => JournalError::Damaged { path: path.clone(), why },
            // The first bytes are not those of a database.
            redb::Error::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                JournalError::Damaged { path: path.clone(), why: error.to_string() }
            }
            source => JournalError::Database { path: path.clone(), source: Box::new(source) },
        };
        create(&path, open).map_err(failed)?;
        let (database, revision, rows) = catch_panic(|| {
            let database = open(&path)?;
            let (revision, rows) = read(&database)?;
            Ok((database, revision, rows))
        })
        .map_err(failed)?;
        let mut kept = Vec::with_capacity(rows.len());
        for (key, value) in rows {
            match row(&key, &value) {
                Ok(object) => kept.push(object),
                Err(why) => tracing::error!(
                    object = %String::from_utf8_lossy(&key).replace('\0', "/"),
                    file = %path.display(),
                    %why,
                    "Cannot read a stored object; ignoring it. It stays in the file."
                ),
            }
        }
        Ok((Self { path, open, database: Some(database), unsure: None }, revision, kept))
    }

    /// Writes one change. The change is on disk when this returns. `before` is the object that the change replaces.
    pub(super) fn record(
        &mut self,
        table: &str,
        key: &Key,
        (before, after): (Option<&StoredObject>, Option<&StoredObject>),
        revision: u64,
    ) -> Result<(), redb::Error> {
        let key = [table, &key.namespace, &key.name].join("\0").into_bytes();
        // Taken out of `self`, so that a database whose write failed or panicked is not used again: it is opened anew.
        let database = match self.database.take() {
            Some(database) => database,
            None => self.reopened()?,
        };
        let change = Row { key, value: after.map(|after| encoded(after, revision)), revision };
        match catch_panic(|| write(&database, &change)) {
            Ok(()) => {
                self.database = Some(database);
                Ok(())
            }
            Err(error) => {
                let before = before.map(|before| encoded(before, before.revision));
                self.unsure = Some(Row { key: change.key, value: before, revision: revision - 1 });
                tracing::error!(
                    file = %self.path.display(),
                    %error,
                    "Cannot write the journal; refusing changes until it can be written again."
                );
                Err(error)
            }
        }
    }

    /// Opens the file again after a failed write, and restores the previous row of that write.
    fn reopened(&mut self) -> Result<Database, redb::Error> {
        let database = catch_panic(|| {
            let database = (self.open)(&self.path)?;
            if let Some(before) = &self.unsure {
                write(&database, before)?;
            }
            Ok(database)
        })?;
        self.unsure = None;
        tracing::info!(file = %self.path.display(), "The journal can be written again.");
        Ok(database)
    }
}

/// Creates the file of a new store. The file gets its final name only as a valid database. So an empty file of that name is damage,
/// and must not open as a store without objects.
fn create(path: &Path, open: OpenDatabase) -> Result<(), redb::Error> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.len() == 0 => {
            return Err(redb::Error::Corrupted("it has 0 bytes".to_owned()));
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        // The next step tells why a file cannot be used.
        _ => return Ok(()),
    }
    let unfinished = path.with_extension("new");
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    drop(open(&unfinished)?);
    std::fs::rename(&unfinished, path)?;
    Ok(())
}

/// Reads the last revision and all rows.
#[expect(clippy::type_complexity, reason = "raw rows, used once")]
fn read(database: &Database) -> Result<(u64, Vec<(Vec<u8>, Vec<u8>)>), redb::Error> {
    // a table can only be opened for reading once it exists
    let begun = database.begin_write()?;
    begun.open_table(OBJECTS)?;
    begun.open_table(COUNTERS)?;
    begun.commit()?;
    let reading = database.begin_read()?;
    let revision = reading.open_table(COUNTERS)?.get("revision")?.map_or(1, |value| value.value());
    let mut rows = Vec::new();
    for row in reading.open_table(OBJECTS)?.iter()? {
        let (key, value) = row?;
        rows.push((key.value().to_vec(), value.value().to_vec()));
    }
    Ok((revision, rows))
}

/// Parses a row. Returns an error that says why the row is unreadable.
pub(super) fn row(key: &[u8], value: &[u8]) -> Result<JournalRecord, String> {
    let key = std::str::from_utf8(key).map_err(|_| "its name is not UTF-8".to_owned())?;
    let mut parts = key.split('\0');
    let (Some(table), Some(namespace), Some(name), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err("its name does not have three parts".to_owned());
    };
    let (head, json) = value.split_first_chunk::<8>().ok_or("it is cut off")?;
    let object: Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let key = Key::new(namespace, name);
    if Key::of(&object) != key {
        return Err("its metadata belongs to another object".to_owned());
    }
    Ok(JournalRecord { table: table.to_owned(), key, object, revision: u64::from_be_bytes(*head) })
}

fn encoded(stored: &StoredObject, revision: u64) -> Vec<u8> {
    let mut value = revision.to_be_bytes().to_vec();
    // a JSON value can always be written as JSON
    let _ = serde_json::to_writer(&mut value, &*stored.value);
    value
}

fn write(database: &Database, row: &Row) -> Result<(), redb::Error> {
    let writing = database.begin_write()?;
    {
        let mut objects = writing.open_table(OBJECTS)?;
        match &row.value {
            Some(value) => drop(objects.insert(row.key.as_slice(), value.as_slice())?),
            None => drop(objects.remove(row.key.as_slice())?),
        }
        writing.open_table(COUNTERS)?.insert("revision", row.revision)?;
    }
    writing.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::atomic::{AtomicBool, Ordering},
    };

    use redb::{StorageBackend, backends::FileBackend};
    use serde_json::json;

    use super::*;

    static FULL: AtomicBool = AtomicBool::new(false);

    /// A disk that can be full.
    #[derive(Debug)]
    struct Disk(FileBackend);

    fn room() -> io::Result<()> {
        if FULL.load(Ordering::SeqCst) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    impl StorageBackend for Disk {
        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }
        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.0.read(offset, out)
        }
        fn set_len(&self, len: u64) -> io::Result<()> {
            room().and_then(|()| self.0.set_len(len))
        }
        fn sync_data(&self) -> io::Result<()> {
            room().and_then(|()| self.0.sync_data())
        }
        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            room().and_then(|()| self.0.write(offset, data))
        }
        fn close(&self) -> io::Result<()> {
            self.0.close()
        }
    }

    fn on_disk(path: &Path) -> Result<Database, DatabaseError> {
        let file = std::fs::File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        redb::Builder::new().create_with_backend(Disk(FileBackend::new(file)?))
    }

    fn stored(name: &str, revision: u64) -> StoredObject {
        StoredObject::new(json!({"metadata": {"name": name, "namespace": "n"}, "at": revision}), revision)
    }

    #[test]
    fn a_disk_that_was_full_is_written_again_and_forgets_what_failed() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, ..) = Journal::open_with(folder.path(), on_disk).unwrap();
        let key = |name: &str| Key::new("n", name);
        let (first, second) = (stored("a", 2), stored("a", 3));
        journal.record("t", &key("a"), (None, Some(&first)), 2).unwrap();
        FULL.store(true, Ordering::SeqCst);
        for _ in 0..3 {
            let failed = journal.record("t", &key("a"), (Some(&first), Some(&second)), 3);
            assert!(failed.is_err());
        }
        FULL.store(false, Ordering::SeqCst);
        journal.record("t", &key("b"), (None, Some(&stored("b", 3))), 3).unwrap();
        journal.record("t", &key("c"), (None, Some(&stored("c", 4))), 4).unwrap();
        drop(journal);
        let (_, revision, kept) = Journal::open(folder.path()).unwrap();
        assert_eq!(revision, 4);
        let seen: Vec<_> = kept.iter().map(|kept| (kept.key.name.as_str(), kept.revision)).collect();
        assert_eq!(seen, [("a", 2), ("b", 3), ("c", 4)]);
    }

    #[test]
    fn a_file_that_is_damaged_while_it_cannot_be_written_refuses_changes_and_ends_no_request() {
        static OPENED: AtomicBool = AtomicBool::new(false);
        let open: OpenDatabase = |path| {
            // The library panics on some damages.
            assert!(!OPENED.load(Ordering::SeqCst), "a page");
            Database::create(path)
        };
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, ..) = Journal::open_with(folder.path(), open).unwrap();
        journal.database = None;
        OPENED.store(true, Ordering::SeqCst);
        let change = |journal: &mut Journal| {
            journal.record("t", &Key::new("n", "a"), (None, Some(&stored("a", 2))), 2)
        };
        assert!(matches!(change(&mut journal), Err(redb::Error::Corrupted(_))));
        OPENED.store(false, Ordering::SeqCst);
        change(&mut journal).unwrap();
    }

    #[test]
    fn a_damaged_file_is_named_and_never_opens_without_objects() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, ..) = Journal::open(folder.path()).unwrap();
        for number in 2..100 {
            let name = format!("a{number}");
            journal.record("t", &Key::new("n", &name), (None, Some(&stored(&name, number))), number).unwrap();
        }
        drop(journal);
        let path = folder.path().join("apiserver.redb");
        let written = std::fs::read(&path).unwrap();
        let page = |at: usize| {
            let mut bytes = written.clone();
            bytes[at..at + 4096].fill(0);
            bytes
        };
        let used =
            (0..written.len()).step_by(4096).filter(|at| written[*at..at + 4096].iter().any(|b| *b != 0));
        let mut damages: Vec<_> = used.map(page).collect();
        damages.extend([Vec::new(), written[..written.len() / 2].to_vec()]);
        for damaged in damages {
            std::fs::write(&path, &damaged).unwrap();
            match Journal::open(folder.path()) {
                // A page that holds no object any more may be lost.
                Ok((_, _, kept)) => assert_eq!(kept.len(), 98),
                Err(error) => assert!(matches!(error, JournalError::Damaged { .. }), "{error}"),
            }
        }
    }

    #[test]
    fn what_cannot_be_read_is_left_out_and_the_rest_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, ..) = Journal::open(folder.path()).unwrap();
        journal.record("t", &Key::new("n", "a"), (None, Some(&stored("a", 2))), 2).unwrap();
        let deep = format!("{}{{}}{}", "{\"a\":".repeat(200), "}".repeat(200));
        let named = |name: &str| format!("{{\"metadata\":{{\"name\":\"{name}\",\"namespace\":\"n\"}}}}");
        let rows: [(&[u8], Vec<u8>); 6] = [
            (b"t\0n\0deep", [&[0; 8], deep.as_bytes()].concat()),
            (b"t\0n\0cut", vec![0; 3]),
            (b"t\0n\0other", [&[0; 8], named("x").as_bytes()].concat()),
            (b"t\0\xff\0name", [&[0; 8], named("x").as_bytes()].concat()),
            (b"parts", [&[0; 8], named("x").as_bytes()].concat()),
            (b"t\0n\0good", [&3_u64.to_be_bytes(), named("good").as_bytes()].concat()),
        ];
        for (key, value) in rows {
            let row = Row { key: key.to_vec(), value: Some(value), revision: 3 };
            write(journal.database.as_ref().unwrap(), &row).unwrap();
        }
        drop(journal);
        let (_, revision, kept) = Journal::open(folder.path()).unwrap();
        assert_eq!(revision, 3);
        let seen: Vec<_> = kept.iter().map(|kept| kept.key.name.as_str()).collect();
        assert_eq!(seen, ["a", "good"]);
    }
}
