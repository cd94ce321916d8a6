//! Downloads one file: in parts, into a private file, with a journal of the written bytes and a check of the digest.

use std::{
    fs::File,
    io,
    sync::{Arc, OnceLock, atomic::Ordering::Relaxed},
};

use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::{Condvar, Mutex};
use tokio::time::{Instant, sleep};

use crate::{
    FetchError,
    block_writer::BlockWriter,
    blocking::blocking,
    connections::Connections,
    digest::Digest,
    failure::Failure,
    journal::{FileRecord, Record},
    ledger::{Ledger, verified},
    progress::Counters,
    ranges::Ranges,
    remote::{ByteRange, FileResponse, Placement, RemoteFile, SINGLE_REQUEST_LIMIT, Source},
    retry::{RetryPolicy, pause},
    target::Target,
    writer::{DigestTask, FileWriter, WriteState},
};

/// One file that is being downloaded.
pub(crate) struct FileDownload {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) target: Arc<Target>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) retries: RetryPolicy,
    pub(crate) revision: Option<Arc<str>>,
    pub(crate) file: RemoteFile,
    /// Set when the file's size has been added to the total.
    pub(crate) counted: OnceLock<u64>,
}

/// Why an attempt at a file failed.
enum AttemptError {
    /// The download has failed.
    Final(FetchError),
    /// The bytes so far are useless. The file is fetched again; in parts only if `ranged`.
    Restart { why: String, ranged: bool },
}

impl From<FetchError> for AttemptError {
    fn from(error: FetchError) -> Self {
        Self::Final(error)
    }
}

/// Why a stream stopped.
enum StreamError {
    /// Another attempt may succeed.
    Transport(Failure),
    /// The attempt at the file is over.
    Attempt(AttemptError),
}

impl<E: Into<AttemptError>> From<E> for StreamError {
    fn from(error: E) -> Self {
        Self::Attempt(error.into())
    }
}

// === impl FileDownload ===

impl FileDownload {
    /// Downloads the file and moves it to its place. An archive stays a private file, whose name is returned.
    pub(crate) async fn run(mut self) -> Result<Option<(RemoteFile, String)>, FetchError> {
        let mut attempts = 0;
        let mut start_over = false;
        loop {
            attempts += 1;
            match self.attempt(start_over).await {
                Ok(private) => return Ok(private.map(|private| (self.file, private))),
                Err(AttemptError::Final(error)) => return Err(error),
                Err(AttemptError::Restart { why, ranged }) if attempts < 3 => {
                    tracing::warn!(
                        file = &*self.file.path,
                        reason = why,
                        "The download of this file starts over."
                    );
                    self.file.ranged &= ranged;
                    start_over = true;
                }
                Err(AttemptError::Restart { why, .. }) => {
                    return Err(FetchError::Content { file: self.file.path.to_string(), why });
                }
            }
        }
    }

    async fn attempt(&self, start_over: bool) -> Result<Option<String>, AttemptError> {
        let writer = Arc::new(self.begin(start_over).await?);
        let mut digest_task = DigestTask::start(writer.clone());
        // A local copy that turned out to be damaged is not used again.
        if !start_over
            && writer.written.lock().ranges.total() == 0
            && let Some(path) = self.source.local_copy(&self.file)
        {
            let writer = writer.clone();
            // If the copy fails, the file is fetched over the network.
            let copied = blocking(move || {
                Ok(writer.copy(&path).inspect_err(|error| {
                    tracing::debug!(path = %path.display(), %error, "Cannot use a local copy.");
                }))
            });
            let _ = copied.await?;
        }
        let result = self.download_parts(&writer).await;
        // Also after a failure: the thread that computes the digest must have ended before the file is discarded.
        writer.end();
        let digest = digest_task.finish().await;
        if let Err(ended) = result {
            let is_resumable = writer.is_recorded.get() == Some(&true)
                && !matches!(
                    ended,
                    AttemptError::Restart { .. } | AttemptError::Final(FetchError::Endless { .. })
                );
            if !is_resumable {
                self.discard(&writer);
            }
            return Err(ended);
        }
        let digest = digest.map_err(|error| self.failed("read", error))?;
        let expected = writer.digest.get().copied().flatten().or(self.file.digest);
        if let (Some(expected), Some(found)) = (&expected, &digest)
            && expected != found
            && !writer.is_sha1(expected).map_err(|error| self.failed("read", error))?
        {
            self.discard(&writer);
            return Err(AttemptError::Restart {
                why: format!("its digest is {found}, not {expected}"),
                ranged: true,
            });
        }
        Ok(self.complete(writer, digest).await?)
    }

    /// Removes bytes that became useless, so that another attempt has their space.
    fn discard(&self, writer: &FileWriter) {
        self.counters.lost(writer.written.lock().ranges.total());
        let name = self.ledger.partial_name(writer.number);
        if let Err(error) = self.target.remove_private(&name) {
            tracing::debug!(name, %error, "Cannot remove an unfinished file.");
        }
    }

    fn failed(&self, action: &'static str, error: io::Error) -> FetchError {
        FetchError::file(action, self.target.path().join(&*self.file.path))(error)
    }

    /// Opens the private file, and finds the bytes that are already in it.
    async fn begin(&self, start_over: bool) -> Result<FileWriter, FetchError> {
        let (target, ledger, file) = (self.target.clone(), self.ledger.clone(), self.file.clone());
        let counters = self.counters.clone();
        blocking(move || {
            let former = ledger.partial(&file.path).filter(|former| {
                !start_over
                    && file.identity().is_none_or(|identity| *identity == *former.identity)
                    && (file.size.is_none() || file.size == former.size)
            });
            let open = || -> io::Result<(File, u64, Ranges)> {
                let number = former.as_ref().map_or_else(|| ledger.number(), |former| former.number);
                let opened = target.private(&ledger.partial_name(number))?;
                let ranges = former
                    .as_ref()
                    .map_or_else(|| Ok(Ranges::default()), |former| verified(&opened, former))?;
                Ok((opened, number, ranges))
            };
            let path = target.path().join(&*file.path);
            let (opened, number, ranges) = open().map_err(FetchError::file("write", path))?;
            counters.bytes_done.fetch_add(ranges.total(), Relaxed);
            let known = |value: Option<u64>| value.map_or_else(OnceLock::new, OnceLock::from);
            let writer = FileWriter {
                file: opened,
                ledger,
                counters,
                path: file.path.clone(),
                number,
                size: known(file.size.or(former.as_ref().and_then(|former| former.size))),
                identity: OnceLock::new(),
                digest: OnceLock::new(),
                is_recorded: OnceLock::new(),
                written: Mutex::new(WriteState { ranges, ended: false }),
                changed: Condvar::new(),
            };
            if let Some(former) = former {
                let _ = writer.identity.set(Some(former.identity.into()));
                let _ = writer.is_recorded.set(true);
            }
            if file.digest.is_some() {
                let _ = writer.digest.set(file.digest);
            }
            Ok(writer)
        })
        .await
    }

    async fn download_parts(&self, writer: &Arc<FileWriter>) -> Result<(), AttemptError> {
        let parts = {
            let written = writer.written.lock();
            match writer.size.get() {
                Some(size) if self.file.ranged && *size > SINGLE_REQUEST_LIMIT => {
                    written.ranges.missing(*size, self.connections.part)
                }
                Some(size) => written.ranges.missing(*size, u64::MAX),
                None => vec![(written.ranges.prefix(), u64::MAX)],
            }
        };
        // Bytes are missing before other bytes. Without range requests, only the whole file can be fetched.
        if !self.file.ranged
            && (parts.len() > 1
                || parts.first().is_some_and(|part| Some(&part.1) != writer.size.get() && part.1 != u64::MAX))
        {
            return Err(AttemptError::Restart {
                why: "the server does not support range requests".into(),
                ranged: false,
            });
        }
        let at_once = self.source.parallel().connections;
        stream::iter(parts)
            .map(|(start, end)| self.part(writer, start, (end != u64::MAX).then_some(end)))
            .buffer_unordered(at_once)
            .try_collect::<()>()
            .await
    }

    /// Downloads one part, over several connections if they break.
    async fn part(&self, writer: &Arc<FileWriter>, start: u64, end: Option<u64>) -> Result<(), AttemptError> {
        let mut at = start;
        let (mut failures, mut last, mut since) = (0, start, Instant::now());
        let mut broke_off: Option<String> = None;
        loop {
            let permit = self.connections.next().await;
            let result = self.stream(writer, &mut at, end).await;
            // A part that pauses leaves its connection to the others.
            drop(permit);
            let failure = match result {
                Ok(()) => return Ok(()),
                Err(StreamError::Attempt(AttemptError::Restart { why, ranged })) => {
                    // The message first gives the failure that made this request necessary.
                    let before = broke_off.map(|before| format!("{before}; then ")).unwrap_or_default();
                    return Err(AttemptError::Restart { why: format!("{before}{why}"), ranged });
                }
                Err(StreamError::Attempt(ended)) => return Err(ended),
                Err(StreamError::Transport(failure)) => failure,
            };
            if matches!(failure.status, Some(412 | 416)) {
                let why = "it changed at the source".to_owned();
                return Err(AttemptError::Restart { why, ranged: true });
            }
            // A download of hours may break often, and goes on as long as each attempt brings something.
            if at > last {
                (failures, last, since) = (0, at, Instant::now());
            }
            failures += 1;
            let wait = pause(failure.cause, failures, since.elapsed(), self.retries, rand::random());
            let Some(wait) = wait else { return Err(AttemptError::Final(self.source.error(failure))) };
            tracing::warn!(
                file = &*self.file.path,
                host = failure.host,
                at,
                wait = ?wait,
                error = failure.why,
                "The download was interrupted and resumes."
            );
            broke_off = Some(failure.why);
            sleep(wait).await;
        }
    }

    async fn stream(
        &self,
        writer: &Arc<FileWriter>,
        at: &mut u64,
        end: Option<u64>,
    ) -> Result<(), StreamError> {
        // If the part ends at the end of the file, the request has no end. From the start of the file it then needs no range.
        let end_wanted = end.filter(|end| Some(end) != writer.size.get());
        let identity = writer.identity.get().cloned().flatten().or_else(|| self.file.identity());
        let range = ByteRange { start: *at, end: end_wanted, identity };
        let opened = self.source.open(&self.file, &range).await.map_err(StreamError::Transport)?;
        self.accept(writer, &range, &opened)?;

        let mut answer = opened.answer;
        let end = end.or(writer.size.get().copied());
        let mut blocks = BlockWriter::new(&self.target, writer, *at, end);
        let stopped = loop {
            match answer.chunk().await {
                Ok(None) => break None,
                Err(failure) => break Some(failure),
                Ok(Some(mut chunk)) => {
                    let is_too_long = chunk.len() > blocks.room();
                    if is_too_long && range.end.is_none() {
                        // The block in flight must be counted before the attempt is discarded.
                        blocks.finish().await?;
                        return Err(restart("the server sent more bytes than it announced", true).into());
                    }
                    chunk.truncate(blocks.room());
                    blocks.push(chunk).await?;
                    if is_too_long {
                        // The server ignored the end of the range, and may send the whole rest of the file.
                        break None;
                    }
                }
            }
        };
        *at = blocks.finish().await?;
        match (stopped, end) {
            (Some(_), Some(end)) if *at == end => Ok(()),
            (Some(failure), _) => Err(StreamError::Transport(failure)),
            (None, Some(end)) if *at < end => {
                let why = format!("the body ended after {at} of {end} bytes");
                Err(StreamError::Transport(Failure::broken(why)))
            }
            (None, Some(_)) => Ok(()),
            (None, None) => {
                tracing::info!(
                    file = &*self.file.path,
                    bytes = *at,
                    "The server did not announce a size, so a missing end of the file cannot be detected."
                );
                let _ = writer.size.set(*at);
                Ok(())
            }
        }
    }

    /// Refuses an answer that is not the requested range of the same file, and records what it says about the file.
    fn accept(
        &self,
        writer: &FileWriter,
        range: &ByteRange,
        opened: &FileResponse,
    ) -> Result<(), AttemptError> {
        if opened.start != range.start {
            let why = if range.identity.is_none() {
                "cannot request the rest of the file, because the server sends no ETag"
            } else {
                "the server ignored the range of the request"
            };
            return Err(restart(why, false));
        }
        if let Some(size) = opened.size {
            let is_new = writer.size.get().is_none();
            // Several connections learn the size at the same time; the first one counts.
            if *writer.size.get_or_init(|| size) != size {
                return Err(restart("its size differs from the announced size", true));
            }
            if is_new {
                self.check_space(writer, size)?;
            }
        }
        if let (None, Some(size)) = (self.file.size, writer.size.get()) {
            // The listing did not contain the size, so it is not counted yet.
            self.counted.get_or_init(|| self.counters.bytes.fetch_add(*size, Relaxed));
        }
        if let Some(former) = writer.identity.get_or_init(|| opened.identity.clone())
            && opened.identity.as_ref().is_some_and(|identity| identity != former)
        {
            return Err(restart("it changed at the source", true));
        }
        writer.digest.get_or_init(|| opened.digest);
        writer.record(&self.file).map_err(|error| self.failed("write", error))?;
        // Without the lock: if the thread of the digest is about to wait and misses this, the next block or the end wakes it.
        writer.changed.notify_all();
        Ok(())
    }

    /// Fails if the volume has too little space for a file whose size the listing did not contain.
    fn check_space(&self, writer: &FileWriter, size: u64) -> Result<(), FetchError> {
        let unpacked = if self.file.placement == Placement::File { 0 } else { size };
        let needed = size.saturating_sub(writer.written.lock().ranges.total()).saturating_add(unpacked);
        self.target.check_space(needed)
    }

    /// Moves the file to its final name, and records that it is complete.
    async fn complete(
        &self,
        writer: Arc<FileWriter>,
        digest: Option<Digest>,
    ) -> Result<Option<String>, FetchError> {
        let (target, file, revision) = (self.target.clone(), self.file.clone(), self.revision.clone());
        let counters = self.counters.clone();
        blocking(move || {
            let private = writer.ledger.partial_name(writer.number);
            let finish = || -> io::Result<Option<String>> {
                let size = writer.written.lock().ranges.total();
                writer.file.set_len(size)?;
                writer.file.sync_data()?;
                if file.placement != Placement::File {
                    return Ok(Some(private.clone()));
                }
                let stat = target.publish(&private, &file.path)?;
                let identity = file.identity().or_else(|| writer.identity.get().cloned().flatten());
                let identity = identity.filter(|identity| !identity.is_empty());
                let done = FileRecord::new(&file.path, stat, identity, revision.as_ref());
                writer.ledger.append(&Record::Done(&FileRecord { digest, ..done }))?;
                Ok(None)
            };
            let finished = finish().map_err(FetchError::file("write", target.path().join(&*file.path)))?;
            counters.checked(digest.as_ref());
            tracing::debug!(file = &*file.path, "This file is complete.");
            Ok(finished)
        })
        .await
    }
}

fn restart(why: &str, ranged: bool) -> AttemptError {
    AttemptError::Restart { why: why.into(), ranged }
}
