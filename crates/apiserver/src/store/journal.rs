//! The objects of a store on disk, in one redb file.

use std::path::{Path, PathBuf};

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use serde_json::Value;

use super::{Key, Stored};

/// `table \0 namespace \0 name` → revision (8 bytes, big endian) and the object as JSON.
const OBJECTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("objects");
/// `revision` → the last revision handed out, deletions included.
const COUNTERS: TableDefinition<'_, &str, u64> = TableDefinition::new("counters");

/// The state directory could not be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The directory could not be made.
    #[error("cannot make {}", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The database refused.
    #[error("cannot use {}", .path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<redb::Error>,
    },
    /// A stored object cannot be read back.
    #[error("{} holds something that is not an object", .path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
    },
}

#[derive(Debug)]
pub(super) struct Journal {
    database: Database,
}

/// Table, object, revision.
type Kept = Vec<(String, Value, u64)>;

// === impl Journal ===

impl Journal {
    pub(super) fn open(directory: &Path) -> Result<(Self, u64, Kept), JournalError> {
        std::fs::create_dir_all(directory)
            .map_err(|source| JournalError::Directory { path: directory.to_owned(), source })?;
        let path = directory.join("apiserver.redb");
        let failed =
            |source: redb::Error| JournalError::Database { path: path.clone(), source: Box::new(source) };
        let database = Database::create(&path).map_err(|e| failed(e.into()))?;
        let (revision, raw) = Self::read(&database).map_err(failed)?;
        let mut kept = Vec::with_capacity(raw.len());
        for (key, value) in raw {
            let corrupt = || JournalError::Corrupt { path: path.clone() };
            let table = key.split(|b| *b == 0).next().unwrap_or_default();
            let table = String::from_utf8(table.to_vec()).map_err(|_| corrupt())?;
            let (head, json) = value.split_first_chunk::<8>().ok_or_else(corrupt)?;
            let object = serde_json::from_slice(json).map_err(|_| corrupt())?;
            kept.push((table, object, u64::from_be_bytes(*head)));
        }
        Ok((Self { database }, revision, kept))
    }

    #[expect(clippy::type_complexity, reason = "raw rows, used once")]
    fn read(database: &Database) -> Result<(u64, Vec<(Vec<u8>, Vec<u8>)>), redb::Error> {
        // opening a table for reading fails until it was made
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

    /// Writes one change; it is on disk when this returns.
    pub(super) fn record(
        &self,
        table: &str,
        key: &Key,
        stored: Option<&Stored>,
        revision: u64,
    ) -> Result<(), redb::Error> {
        let row = [table, &key.namespace, &key.name].join("\0");
        let writing = self.database.begin_write()?;
        {
            let mut objects = writing.open_table(OBJECTS)?;
            match stored {
                Some(stored) => {
                    let mut value = revision.to_be_bytes().to_vec();
                    // values made of JSON can be written as JSON
                    let _ = serde_json::to_writer(&mut value, &*stored.value);
                    objects.insert(row.as_bytes(), value.as_slice())?;
                }
                None => {
                    objects.remove(row.as_bytes())?;
                }
            }
            writing.open_table(COUNTERS)?.insert("revision", revision)?;
        }
        writing.commit()?;
        Ok(())
    }
}
