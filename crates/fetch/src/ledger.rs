//! The journal of a download, on disk.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, BufReader, BufWriter, Write},
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;

use crate::{
    FetchError,
    blocking::read_range,
    digest::{Algorithm, Digest},
    journal::{FileRecord, Journal, MAX_LINE, PartialFile, Record},
    ranges::Ranges,
    target::Target,
};

/// The length that most records do not exceed, in bytes.
const TYPICAL_LINE: usize = 1 << 10;

/// The journal of one source in one folder, with its file.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// The prefix of the names of all private files of this source.
    pub(crate) key: String,
    /// The path of the file, for messages.
    path: PathBuf,
    open: Mutex<OpenJournal>,
    next: AtomicU64,
}

/// The content of the journal so far, and its file.
#[derive(Debug)]
struct OpenJournal {
    journal: Journal,
    file: Arc<File>,
}

// === impl Ledger ===

impl Ledger {
    /// Reads the journal of earlier downloads of the source. Removes private files that no download will resume.
    pub(crate) fn open(target: &Target, source: &str) -> Result<Self, FetchError> {
        let key = Digest::of(Algorithm::Sha256, source.as_bytes()).hex()[..16].to_owned();
        let name = format!("{key}.journal");
        let path = target.private_path(&name);
        let open = || -> io::Result<OpenJournal> {
            let old = target.private(&name)?;
            let journal = Journal::parse(BufReader::new(&old))?.filter(|found| found.source == source);
            let mut open =
                OpenJournal { journal: journal.unwrap_or_else(|| Journal::new(source)), file: old.into() };
            open.renew(target, &name)?;
            remove_orphans(target, &key, &open.journal)?;
            Ok(open)
        };
        let open = open().map_err(FetchError::file("keep a journal in", &path))?;
        let next = open.journal.partial.values().map(|partial| partial.number + 1).max().unwrap_or(1);
        Ok(Self { key, path, open: Mutex::new(open), next: AtomicU64::new(next) })
    }

    /// Writes a record. When this returns, the operating system has the record, so killing the process does not lose it.
    pub(crate) fn append(&self, record: &Record<'_>) -> io::Result<()> {
        let line = record.line();
        let mut open = self.open.lock();
        // A line that was written only in part is overwritten by the next one.
        open.file.write_all_at(line.as_bytes(), open.journal.length)?;
        if let Record::Block { .. } = record {
            // The writer of the file keeps its own list of written bytes, so the block is not added to the journal's content.
            open.journal.length += line.len() as u64;
        } else {
            open.journal.read(line.as_bytes());
        }
        Ok(())
    }

    /// Returns a complete file. Returns `None` if its record cannot be read.
    pub(crate) fn done(&self, path: &str) -> Option<FileRecord> {
        let (file, offset) = {
            let open = self.open.lock();
            (open.file.clone(), open.journal.done.get(path)?)
        };
        FileRecord::read(&line_at(&file, offset).ok()?).filter(|done| *done.path == *path)
    }

    /// Calls `show` for each complete file, in the order of completion.
    pub(crate) fn for_each_complete(
        &self,
        mut show: impl FnMut(FileRecord) -> Result<(), FetchError>,
    ) -> Result<(), FetchError> {
        let (file, offsets) = {
            let open = self.open.lock();
            (open.file.clone(), open.journal.offsets())
        };
        for offset in offsets {
            let line = line_at(&file, offset).map_err(FetchError::file("read", &self.path))?;
            let damaged = || FetchError::file("read", &self.path)(io::ErrorKind::InvalidData.into());
            show(FileRecord::read(&line).ok_or_else(damaged)?)?;
        }
        Ok(())
    }

    /// Returns the revision and the patterns. Returns `None` unless all files were downloaded.
    pub(crate) fn complete(&self) -> Option<(Option<String>, String)> {
        self.open.lock().journal.complete.clone()
    }

    /// Removes the journal, if it records nothing that a later download could use.
    pub(crate) fn remove_if_empty(&self, target: &Target) {
        let open = self.open.lock();
        let journal = &open.journal;
        if journal.files() == 0 && journal.partial.is_empty() && journal.complete.is_none() {
            // What cannot be removed is an empty journal, which does no harm.
            let _ = target.remove_private(&format!("{}.journal", self.key));
        }
    }

    pub(crate) fn partial(&self, path: &str) -> Option<PartialFile> {
        self.open.lock().journal.partial.get(path).cloned()
    }

    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    /// Returns the name of the private file of an unfinished file.
    pub(crate) fn partial_name(&self, number: u64) -> String {
        format!("{}-{number}.part", self.key)
    }

    /// Records that the source is complete, and removes all records that are no longer needed.
    pub(crate) fn finish(
        &self,
        target: &Target,
        revision: Option<&str>,
        filter: &str,
    ) -> Result<(), FetchError> {
        let mut open = self.open.lock();
        open.journal.complete = Some((revision.map(str::to_owned), filter.to_owned()));
        open.journal.partial.clear();
        open.renew(target, &format!("{}.journal", self.key))
            .and_then(|()| remove_orphans(target, &self.key, &open.journal))
            .map_err(FetchError::file("keep a journal in", &self.path))
    }
}

// === impl OpenJournal ===

impl OpenJournal {
    /// Replaces the file by one that contains only the records that are still needed.
    fn renew(&mut self, target: &Target, name: &str) -> io::Result<()> {
        let mut moved = (Vec::new(), 0);
        target.replace_private(name, |file| {
            moved = write(&self.journal, &self.file, file)?;
            Ok(())
        })?;
        self.file = target.private(name)?.into();
        let (offsets, length) = moved;
        for (offset, hash) in offsets {
            self.journal.done.replace(hash, offset);
        }
        self.journal.length = length;
        Ok(())
    }
}

/// Writes the content of a journal, record by record. The records of complete files are copied from the old file. Returns their
/// new offsets, each with the hash of its path, and the length of the new file.
fn write(journal: &Journal, old: &File, new: &File) -> io::Result<(Vec<(u64, u64)>, u64)> {
    let mut new = BufWriter::with_capacity(64 << 10, new);
    let mut length = 0;
    let mut write = |line: &[u8]| -> io::Result<u64> {
        let offset = length;
        new.write_all(line)?;
        length += line.len() as u64;
        Ok(offset)
    };
    write(Record::Header(&journal.source).line().as_bytes())?;
    let mut offsets = journal.done.by_offset();
    for (offset, _) in &mut offsets {
        *offset = write(&line_at(old, *offset)?)?;
    }
    for partial in journal.partial.values() {
        let PartialFile { number, path, size, identity, blocks } = partial;
        write(Record::Partial { number: *number, size: *size, identity, path }.line().as_bytes())?;
        for (start, end, sum) in blocks {
            let block = Record::Block { number: *number, start: *start, end: *end, sum: *sum };
            write(block.line().as_bytes())?;
        }
    }
    if let Some((revision, filter)) = &journal.complete {
        write(Record::Complete { revision: revision.as_deref(), filter }.line().as_bytes())?;
    }
    new.flush()?;
    Ok((offsets, length))
}

/// Returns the line at an offset.
fn line_at(file: &File, offset: u64) -> io::Result<Vec<u8>> {
    let mut line = Vec::with_capacity(TYPICAL_LINE);
    for limit in [TYPICAL_LINE, MAX_LINE + 1] {
        let from = line.len();
        line.resize(limit, 0);
        let count = file.read_at(&mut line[from..], offset + from as u64)?;
        line.truncate(from + count);
        if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            line.truncate(end + 1);
            return Ok(line);
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

fn remove_orphans(target: &Target, key: &str, journal: &Journal) -> io::Result<()> {
    let known: BTreeSet<String> =
        journal.partial.values().map(|partial| format!("{key}-{}.part", partial.number)).collect();
    for name in target.private_names()? {
        if name.starts_with(&format!("{key}-")) && !known.contains(&name) {
            target.remove_private(&name)?;
        }
    }
    Ok(())
}

/// Returns the bytes of an unfinished file that are still as they were written.
pub(crate) fn verified(file: &File, partial: &PartialFile) -> io::Result<Ranges> {
    let mut ranges = Ranges::default();
    let mut buffer = vec![0; 256 << 10];
    for (start, end, sum) in &partial.blocks {
        let mut hasher = crc32fast::Hasher::new();
        let at = read_range(file, *start..*end, &mut buffer, |bytes| hasher.update(bytes))?;
        if at == *end && hasher.finalize() == *sum {
            ranges.insert(*start, *end);
        }
    }
    Ok(ranges)
}
