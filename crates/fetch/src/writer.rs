//! A file that is being downloaded: writes its bytes, records them in the journal, and computes its digest meanwhile.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::{
    FetchError,
    blocking::read_range,
    digest::{Algorithm, Digest, Hasher},
    journal::Record,
    ledger::Ledger,
    names,
    progress::Counters,
    ranges::Ranges,
    remote::RemoteFile,
    target::Target,
};

/// A file up to this size, in bytes, has no journal records. After a failure, the whole file is fetched again.
const UNRECORDED_LIMIT: u64 = 1 << 20;

/// Bytes per read when a digest is computed.
const READ_BUFFER: usize = 256 << 10;

/// The state of a file that is being downloaded.
pub(crate) struct FileWriter {
    pub(crate) file: File,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) path: Arc<str>,
    pub(crate) number: u64,
    /// Size in bytes. Empty until the size is known.
    pub(crate) size: OnceLock<u64>,
    pub(crate) identity: OnceLock<Option<Arc<str>>>,
    pub(crate) digest: OnceLock<Option<Digest>>,
    /// Whether written blocks are recorded in the journal.
    pub(crate) is_recorded: OnceLock<bool>,
    pub(crate) written: Mutex<WriteState>,
    pub(crate) changed: Condvar,
}

#[derive(Default)]
pub(crate) struct WriteState {
    pub(crate) ranges: Ranges,
    /// Whether no more bytes will come.
    pub(crate) ended: bool,
}

// === impl FileWriter ===

impl FileWriter {
    /// Records the start of the file in the journal, once the source has named its content.
    pub(crate) fn record(&self, file: &RemoteFile) -> io::Result<()> {
        let size = self.size.get().copied();
        let identity = self.identity.get().cloned().flatten().or_else(|| file.identity());
        let mut result = Ok(());
        self.is_recorded.get_or_init(|| {
            let Some(identity) = identity.filter(|_| size.is_none_or(|size| size > UNRECORDED_LIMIT)) else {
                return false;
            };
            let record = Record::Partial { number: self.number, size, identity: &identity, path: &self.path };
            result = self.ledger.append(&record);
            result.is_ok()
        });
        result
    }

    /// Fails if a file of unknown size has filled the volume almost completely: it may have no end.
    pub(crate) fn check_end(&self, target: &Target) -> Result<(), FetchError> {
        if self.size.get().is_some() {
            return Ok(());
        }
        match target.free() {
            Some(free) if free < target.reserve() => Err(FetchError::Endless {
                file: names::shown(&self.path),
                written: self.written.lock().ranges.total(),
                folder: target.path().to_owned(),
                free,
            }),
            _ => Ok(()),
        }
    }

    /// Writes a block, and then records it: a record must not promise bytes that a kill would lose.
    pub(crate) fn write(&self, start: u64, chunks: &[Bytes]) -> io::Result<()> {
        let (mut end, mut hasher) = (start, crc32fast::Hasher::new());
        let is_recorded = self.is_recorded.get() == Some(&true);
        for chunk in chunks {
            self.file.write_all_at(chunk, end)?;
            end += chunk.len() as u64;
            if is_recorded {
                hasher.update(chunk);
            }
        }
        if is_recorded {
            let sum = hasher.finalize();
            self.ledger.append(&Record::Block { number: self.number, start, end, sum })?;
        }
        self.written.lock().ranges.insert(start, end);
        self.changed.notify_all();
        self.counters.add_received(end - start);
        Ok(())
    }

    /// Copies the whole content from a local file.
    pub(crate) fn copy(&self, from: &Path) -> io::Result<()> {
        let mut from = File::open(from)?;
        let size = from.metadata()?.len();
        if self.size.get().is_some_and(|expected| *expected != size) {
            return Err(io::Error::other("its size has changed"));
        }
        io::copy(&mut from, &mut &self.file)?;
        self.written.lock().ranges.insert(0, size);
        self.changed.notify_all();
        self.counters.add_received(size);
        Ok(())
    }

    /// Whether the content's SHA-1 is `expected`. Some mirrors of the hub report the SHA-1 of the content where the hub reports
    /// git's blob hash.
    pub(crate) fn is_sha1(&self, expected: &Digest) -> io::Result<bool> {
        if expected.algorithm != Algorithm::GitBlob {
            return Ok(false);
        }
        let size = self.written.lock().ranges.total();
        let mut hasher = Hasher::new(Algorithm::Sha1, size);
        let read = read_range(&self.file, 0..size, &mut vec![0; READ_BUFFER], |bytes| hasher.update(bytes))?;
        Ok(read == size && hasher.finish().value() == expected.value())
    }

    pub(crate) fn end(&self) {
        self.written.lock().ended = true;
        self.changed.notify_all();
    }

    /// Computes the digest of the file from its beginning, while more bytes arrive. The bytes are read back from the file, so
    /// the digest checks the stored content. This costs little, because the bytes are still in the page cache.
    fn follow(&self) -> io::Result<Option<Digest>> {
        let mut hasher: Option<Hasher> = None;
        let mut buffer = Vec::new();
        let mut at = 0;
        loop {
            let (prefix, is_ended) = {
                let mut written = self.written.lock();
                // Some digests begin with the size. A size that nobody announces is known at the end.
                let waits_for =
                    |prefix| prefix <= at || self.digest.get().is_none() || self.size.get().is_none();
                while !written.ended && waits_for(written.ranges.prefix()) {
                    self.changed.wait(&mut written);
                }
                (written.ranges.prefix(), written.ended)
            };
            let Some(digest) = self.digest.get().copied().flatten() else { return Ok(None) };
            let size = self.size.get().copied().unwrap_or(prefix);
            let hasher = hasher.get_or_insert_with(|| Hasher::same_kind(&digest, size));
            buffer.resize(usize::try_from(size).unwrap_or(READ_BUFFER).min(READ_BUFFER), 0);
            at = read_range(&self.file, at..prefix, &mut buffer, |bytes| hasher.update(bytes))?;
            if at < prefix {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if is_ended {
                break;
            }
        }
        Ok(hasher.map(Hasher::finish))
    }
}

/// The task that computes the digest of a file. It ends with the download, even if the download fails.
pub(crate) struct DigestTask {
    writer: Arc<FileWriter>,
    task: Option<JoinHandle<io::Result<Option<Digest>>>>,
}

// === impl DigestTask ===

impl DigestTask {
    pub(crate) fn start(writer: Arc<FileWriter>) -> Self {
        let followed = writer.clone();
        Self { writer, task: Some(spawn_blocking(move || followed.follow())) }
    }

    pub(crate) async fn finish(&mut self) -> io::Result<Option<Digest>> {
        let Some(task) = self.task.take() else { return Ok(None) };
        task.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }
}

impl Drop for DigestTask {
    fn drop(&mut self) {
        self.writer.end();
    }
}
