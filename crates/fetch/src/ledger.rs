//! The journal of a download, on disk.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write},
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;

use crate::{
    FetchError,
    digest::{Algorithm, Digest},
    journal::{Done, Journal, LONGEST_LINE, Partial, Record},
    ranges::Ranges,
    target::Target,
};

/// The journal of one source in one folder, with its open file.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// The prefix of the names of all private files of this source.
    pub(crate) key: String,
    journal: Mutex<Journal>,
    file: Mutex<File>,
    next: AtomicU64,
}

// === impl Ledger ===

impl Ledger {
    /// Reads the journal of earlier downloads of the source. Removes private files that no download will resume.
    pub(crate) fn open(target: &Target, source: &str) -> Result<Self, FetchError> {
        let key = Digest::of(Algorithm::Sha256, source.as_bytes()).hex()[..16].to_owned();
        let name = format!("{key}.journal");
        let open = || -> io::Result<(Journal, File)> {
            let journal =
                read(BufReader::new(target.private(&name)?))?.filter(|found| found.source == source);
            let journal = journal.unwrap_or_else(|| Journal { source: source.into(), ..Journal::default() });
            target.replace_private(&name, |file| write(&journal, file))?;
            remove_orphans(target, &key, &journal)?;
            let mut file = target.private(&name)?;
            file.seek(SeekFrom::End(0))?;
            Ok((journal, file))
        };
        let (journal, file) =
            open().map_err(FetchError::file("keep a journal in", target.private_path(&name)))?;
        let next = journal.partial.values().map(|partial| partial.number + 1).max().unwrap_or(1);
        Ok(Self { key, journal: Mutex::new(journal), file: Mutex::new(file), next: AtomicU64::new(next) })
    }

    /// Writes a record. When this returns, the operating system has the record, so killing the process does not lose it.
    pub(crate) fn append(&self, record: &Record<'_>) -> io::Result<()> {
        let line = record.line();
        match record {
            Record::Block { .. } => {}
            Record::Done(done) => self.journal.lock().add((*done).clone()),
            _ => {
                self.journal.lock().read(line.as_bytes());
            }
        }
        self.file.lock().write_all(line.as_bytes())
    }

    pub(crate) fn done(&self, path: &str) -> Option<Arc<Done>> {
        self.journal.lock().done.get(path).cloned()
    }

    /// Returns all complete files, sorted by path.
    pub(crate) fn all_done(&self) -> Vec<Arc<Done>> {
        self.journal.lock().done.values().cloned().collect()
    }

    /// Returns the revision and the patterns. Returns `None` unless all files were downloaded.
    pub(crate) fn complete(&self) -> Option<(Option<String>, String)> {
        self.journal.lock().complete.clone()
    }

    pub(crate) fn partial(&self, path: &str) -> Option<Partial> {
        self.journal.lock().partial.get(path).cloned()
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
        let mut journal = self.journal.lock();
        journal.complete = Some((revision.map(str::to_owned), filter.to_owned()));
        journal.partial.clear();
        let name = format!("{}.journal", self.key);
        target
            .replace_private(&name, |file| write(&journal, file))
            .and_then(|()| remove_orphans(target, &self.key, &journal))
            .map_err(FetchError::file("keep a journal in", target.private_path(&name)))
    }
}

/// Reads a journal line by line. Returns `None` if there is no journal of a known format.
fn read(mut file: BufReader<File>) -> io::Result<Option<Journal>> {
    let mut journal: Option<Journal> = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        io::Read::take(&mut file, LONGEST_LINE as u64 + 1).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(journal);
        }
        let understood = match &mut journal {
            None => {
                journal = Journal::begin(&line);
                journal.is_some()
            }
            Some(journal) => journal.read(&line).is_some(),
        };
        if !understood {
            return Ok(journal);
        }
    }
}

/// Writes a journal record by record, because the text of all records may not fit into memory.
fn write(journal: &Journal, file: &File) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(64 << 10, file);
    let mut write = |record: Record<'_>| file.write_all(record.line().as_bytes());
    write(Record::Header(&journal.source))?;
    for done in journal.done.values() {
        write(Record::Done(done))?;
    }
    for partial in journal.partial.values() {
        let Partial { number, path, size, identity, blocks } = partial;
        write(Record::Partial { number: *number, size: *size, identity, path })?;
        for (start, end, sum) in blocks {
            write(Record::Block { number: *number, start: *start, end: *end, sum: *sum })?;
        }
    }
    if let Some((revision, filter)) = &journal.complete {
        write(Record::Complete { revision: revision.as_deref(), filter })?;
    }
    file.flush()
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
pub(crate) fn verified(file: &File, partial: &Partial) -> io::Result<Ranges> {
    let mut ranges = Ranges::default();
    let mut buffer = vec![0; 256 << 10];
    for (start, end, sum) in &partial.blocks {
        let mut hasher = crc32fast::Hasher::new();
        let mut at = *start;
        while at < *end {
            let want = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
            let count = file.read_at(&mut buffer[..want], at)?;
            if count == 0 {
                break;
            }
            hasher.update(&buffer[..count]);
            at += count as u64;
        }
        if at == *end && hasher.finalize() == *sum {
            ranges.insert(*start, *end);
        }
    }
    Ok(ranges)
}
