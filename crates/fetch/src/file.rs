//! Downloads one file: in parts, into a private file, with a journal of the written bytes and a check of the digest.

use std::{
    fs::File,
    io,
    sync::{Arc, OnceLock, atomic::Ordering::Relaxed},
};

use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::{Condvar, Mutex};
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};

use crate::{
    FetchError,
    arriving::{Arriving, Follower, Written},
    block_writer::BlockWriter,
    connections::Connections,
    digest::Digest,
    http::Failure,
    journal::{Done, Record},
    ledger::{Ledger, verified},
    names,
    progress::Counters,
    ranges::Ranges,
    retry::{Patience, pause},
    source::{Placement, Remote, Source, Want},
    target::Target,
    transfer::{Transfer, blocking},
};

/// Larger files are fetched in parts, in bytes.
pub(crate) const LARGE: u64 = 32 << 20;

/// One file that is being downloaded.
pub(crate) struct Fetching {
    source: Arc<dyn Source>,
    target: Arc<Target>,
    ledger: Arc<Ledger>,
    counters: Arc<Counters>,
    connections: Arc<Connections>,
    patience: Patience,
    revision: Option<Arc<str>>,
    file: Remote,
    /// Set when the file's size has been added to the total.
    counted: OnceLock<u64>,
}

/// Why an attempt at a file failed.
pub(crate) enum Ended {
    /// The download has failed.
    Failed(FetchError),
    /// The bytes so far are useless. The file is fetched again; in parts only if `ranged`.
    Over { why: String, ranged: bool },
}

// === impl Fetching ===

impl Fetching {
    pub(crate) fn new(
        transfer: &Transfer,
        file: Remote,
        revision: Option<Arc<str>>,
        patience: Patience,
        connections: Arc<Connections>,
    ) -> Self {
        Self {
            source: transfer.source.clone(),
            target: transfer.target.clone(),
            ledger: transfer.ledger.clone(),
            counters: transfer.counters.clone(),
            connections,
            patience,
            revision,
            file,
            counted: OnceLock::new(),
        }
    }

    /// Downloads the file and moves it to its place. An archive stays a private file, whose name is returned.
    pub(crate) async fn run(mut self) -> Result<Option<(Remote, String)>, FetchError> {
        let mut attempts = 0;
        let mut start_over = false;
        loop {
            attempts += 1;
            match self.attempt(start_over).await {
                Ok(private) => return Ok(private.map(|private| (self.file, private))),
                Err(Ended::Failed(error)) => return Err(error),
                Err(Ended::Over { why, ranged }) if attempts < 3 => {
                    tracing::warn!(file = &*self.file.path, "Starting over: {why}.");
                    self.file.ranged &= ranged;
                    start_over = true;
                }
                Err(Ended::Over { why, .. }) => {
                    return Err(FetchError::Content { file: self.file.path.to_string(), why });
                }
            }
        }
    }

    async fn attempt(&self, start_over: bool) -> Result<Option<String>, Ended> {
        let arriving = Arc::new(self.begin(start_over).await.map_err(Ended::Failed)?);
        let mut follower = Follower::start(arriving.clone());
        // A local copy that turned out to be damaged is not used again.
        if !start_over
            && arriving.written.lock().ranges.total() == 0
            && let Some(path) = self.source.on_this_machine(&self.file)
        {
            let arriving = arriving.clone();
            // If the copy fails, the file is fetched over the network.
            let copied = blocking(move || {
                Ok(arriving.copy(&path).inspect_err(|error| {
                    tracing::debug!(path = %path.display(), %error, "Cannot use a local copy.");
                }))
            });
            let _ = copied.await.map_err(Ended::Failed)?;
        }
        let result = self.bring(&arriving).await;
        arriving.end();
        let digest = follower.finish().await;
        if let Err(ended) = result {
            let is_resumable = arriving.is_recorded.get() == Some(&true)
                && !matches!(ended, Ended::Over { .. } | Ended::Failed(FetchError::Endless { .. }));
            if !is_resumable {
                self.discard(&arriving);
            }
            return Err(ended);
        }
        let digest = digest.map_err(|error| self.failed("read", error))?;
        let expected = arriving.digest.get().copied().flatten().or(self.file.digest);
        if let (Some(expected), Some(found)) = (&expected, &digest)
            && expected != found
            && !arriving.is_sha1(expected).map_err(|error| self.failed("read", error))?
        {
            self.discard(&arriving);
            return Err(Ended::Over { why: format!("its digest is {found}, not {expected}"), ranged: true });
        }
        self.complete(arriving, digest).await.map_err(Ended::Failed)
    }

    /// Removes bytes that became useless, so that another attempt has their space.
    fn discard(&self, arriving: &Arriving) {
        self.counters.lost(arriving.written.lock().ranges.total());
        let name = self.ledger.partial_name(arriving.number);
        if let Err(error) = self.target.remove_private(&name) {
            tracing::debug!(name, %error, "Cannot remove an unfinished file.");
        }
    }

    pub(crate) fn failed(&self, action: &'static str, error: io::Error) -> Ended {
        Ended::Failed(FetchError::file(action, self.target.path().join(&*self.file.path))(error))
    }

    /// Opens the private file, and finds the bytes that are already in it.
    async fn begin(&self, start_over: bool) -> Result<Arriving, FetchError> {
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
            let arriving = Arriving {
                file: opened,
                ledger,
                counters,
                path: file.path.clone(),
                number,
                size: known(file.size.or(former.as_ref().and_then(|former| former.size))),
                identity: OnceLock::new(),
                digest: OnceLock::new(),
                is_recorded: OnceLock::new(),
                written: Mutex::new(Written { ranges, ended: false }),
                changed: Condvar::new(),
            };
            if let Some(former) = former {
                let _ = arriving.identity.set(Some(former.identity.into()));
                let _ = arriving.is_recorded.set(true);
            }
            if file.digest.is_some() {
                let _ = arriving.digest.set(file.digest);
            }
            Ok(arriving)
        })
        .await
    }

    async fn bring(&self, arriving: &Arc<Arriving>) -> Result<(), Ended> {
        let parts = {
            let written = arriving.written.lock();
            match arriving.size.get() {
                Some(size) if self.file.ranged && *size > LARGE => {
                    written.ranges.missing(*size, self.connections.part)
                }
                Some(size) => written.ranges.missing(*size, u64::MAX),
                None => vec![(written.ranges.prefix(), u64::MAX)],
            }
        };
        // Bytes are missing before other bytes. Without range requests, only the whole file can be fetched.
        if !self.file.ranged
            && (parts.len() > 1
                || parts
                    .first()
                    .is_some_and(|part| Some(&part.1) != arriving.size.get() && part.1 != u64::MAX))
        {
            return Err(Ended::Over {
                why: "the server does not support range requests".into(),
                ranged: false,
            });
        }
        let at_once = self.source.parallel().connections;
        stream::iter(parts)
            .map(|(start, end)| self.part(arriving, start, (end != u64::MAX).then_some(end)))
            .buffer_unordered(at_once)
            .try_collect::<()>()
            .await
    }

    /// Downloads one part, over several connections if they break.
    async fn part(&self, arriving: &Arc<Arriving>, start: u64, end: Option<u64>) -> Result<(), Ended> {
        let mut at = start;
        let (mut failures, mut last, mut since) = (0, start, Instant::now());
        let mut broke_off: Option<String> = None;
        loop {
            let permit = self.connections.next().await;
            let result = self.stream(arriving, &mut at, end).await;
            drop(permit);
            let failure = match result {
                Ok(()) => return Ok(()),
                Err(Stopped::Ended(Ended::Over { why, ranged })) => {
                    // The message first gives the failure that made this request necessary.
                    let before = broke_off.map(|before| format!("{before}; then ")).unwrap_or_default();
                    return Err(Ended::Over { why: format!("{before}{why}"), ranged });
                }
                Err(Stopped::Ended(ended)) => return Err(ended),
                Err(Stopped::Failure(failure)) => failure,
            };
            if matches!(failure.status, Some(412 | 416)) {
                let why = "it changed at the source".to_owned();
                return Err(Ended::Over { why, ranged: true });
            }
            if at > last {
                (failures, last, since) = (0, at, Instant::now());
            }
            failures += 1;
            let wait = pause(failure.cause, failures, since.elapsed(), self.patience, rand::random());
            let Some(wait) = wait else { return Err(Ended::Failed(self.source.error(failure))) };
            tracing::warn!(
                file = &*self.file.path,
                host = failure.host,
                at,
                wait = ?wait,
                "The download was interrupted and resumes: {}.",
                failure.why
            );
            broke_off = Some(failure.why);
            sleep(wait).await;
        }
    }

    async fn stream(&self, arriving: &Arc<Arriving>, at: &mut u64, end: Option<u64>) -> Result<(), Stopped> {
        // If the part ends at the end of the file, the request has no end. From the start of the file it then needs no range.
        let end_wanted = end.filter(|end| Some(end) != arriving.size.get());
        let identity = arriving.identity.get().cloned().flatten().or_else(|| self.file.identity());
        let want = Want { start: *at, end: end_wanted, identity };
        let opened = self.source.open(&self.file, &want).await.map_err(Stopped::Failure)?;
        let over = |why: &str, ranged| Err(Stopped::Ended(Ended::Over { why: why.into(), ranged }));
        if opened.start != *at {
            let why = if want.identity.is_none() {
                "cannot request the rest of the file, because the server sends no ETag"
            } else {
                "the server ignored the range of the request"
            };
            return over(why, false);
        }
        if let Some(size) = opened.size {
            let is_new = arriving.size.get().is_none();
            if *arriving.size.get_or_init(|| size) != size {
                return over("its size differs from the announced size", true);
            }
            if is_new {
                self.check_space(arriving, size).map_err(|error| Stopped::Ended(Ended::Failed(error)))?;
            }
        }
        if let (None, Some(size)) = (self.file.size, arriving.size.get()) {
            // The listing did not contain the size, so it is not counted yet.
            self.counted.get_or_init(|| self.counters.bytes.fetch_add(*size, Relaxed));
        }
        if let Some(former) = arriving.identity.get_or_init(|| opened.identity.clone())
            && opened.identity.as_ref().is_some_and(|identity| identity != former)
        {
            return over("it changed at the source", true);
        }
        arriving.digest.get_or_init(|| opened.digest);
        arriving.record(&self.file).map_err(|error| Stopped::Ended(self.failed("write", error)))?;
        arriving.changed.notify_all();

        let mut answer = opened.answer;
        let end = end.or(arriving.size.get().copied());
        let mut blocks = BlockWriter::new(self, arriving, *at, end);
        let stopped = loop {
            match answer.chunk().await {
                Ok(None) => break None,
                Err(failure) => break Some(failure),
                Ok(Some(mut chunk)) => {
                    if chunk.len() > blocks.room() && want.end.is_none() {
                        return over("the server sent more bytes than it announced", true);
                    }
                    chunk.truncate(blocks.room());
                    blocks.push(chunk).await?;
                }
            }
        };
        *at = blocks.finish().await?;
        match (stopped, end) {
            (Some(_), Some(end)) if *at == end => Ok(()),
            (Some(failure), _) => Err(Stopped::Failure(failure)),
            (None, Some(end)) if *at < end => {
                let why = format!("the body ended after {at} of {end} bytes");
                Err(Stopped::Failure(Failure::broken(why)))
            }
            (None, Some(_)) => Ok(()),
            (None, None) => {
                tracing::info!(
                    file = &*self.file.path,
                    bytes = *at,
                    "The server did not announce a size, so a missing end of the file cannot be detected."
                );
                let _ = arriving.size.set(*at);
                Ok(())
            }
        }
    }

    /// Fails if the volume has too little space for a file whose size the listing did not contain.
    fn check_space(&self, arriving: &Arriving, size: u64) -> Result<(), FetchError> {
        let unpacked = if self.file.placement == Placement::File { 0 } else { size };
        let needed = size.saturating_sub(arriving.written.lock().ranges.total()).saturating_add(unpacked);
        match self.target.free() {
            Some(free) if free < needed => {
                Err(FetchError::Space { folder: self.target.path().to_owned(), needed, free })
            }
            _ => Ok(()),
        }
    }

    /// Fails if a file of unknown size has filled the volume almost completely: it may have no end.
    pub(crate) fn check_end(&self, arriving: &Arriving) -> Result<(), FetchError> {
        if arriving.size.get().is_some() {
            return Ok(());
        }
        match self.target.free() {
            Some(free) if free < self.target.reserve() => Err(FetchError::Endless {
                file: names::shown(&self.file.path),
                written: arriving.written.lock().ranges.total(),
                folder: self.target.path().to_owned(),
                free,
            }),
            _ => Ok(()),
        }
    }

    /// Moves the file to its final name, and records that it is complete.
    async fn complete(
        &self,
        arriving: Arc<Arriving>,
        digest: Option<Digest>,
    ) -> Result<Option<String>, FetchError> {
        let (target, file, revision) = (self.target.clone(), self.file.clone(), self.revision.clone());
        let counters = self.counters.clone();
        blocking(move || {
            let private = arriving.ledger.partial_name(arriving.number);
            let finish = || -> io::Result<Option<String>> {
                let size = arriving.written.lock().ranges.total();
                arriving.file.set_len(size)?;
                arriving.file.sync_data()?;
                if file.placement != Placement::File {
                    return Ok(Some(private.clone()));
                }
                let stat = target.publish(&private, &file.path)?;
                let identity = file.identity().or_else(|| arriving.identity.get().cloned().flatten());
                let done = Done {
                    path: file.path.clone(),
                    size: stat.size,
                    modified: stat.modified,
                    identity: identity.filter(|identity| !identity.is_empty()),
                    digest,
                    revision,
                    archive: None,
                };
                arriving.ledger.append(&Record::Done(&done))?;
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

/// Why a stream stopped.
pub(crate) enum Stopped {
    /// Another attempt may succeed.
    Failure(Failure),
    /// The attempt at the file is over.
    Ended(Ended),
}
