//! Downloads the files of a source into a folder: keeps existing files, fetches missing ones, and removes those that the source no
//! longer has.

mod archives;

use std::{
    collections::BTreeSet,
    fs::File,
    io,
    sync::{Arc, OnceLock, atomic::Ordering::Relaxed},
};

use futures::{StreamExt, TryStreamExt, stream};

use crate::{
    FetchError,
    blocking::{blocking, read_range},
    connections::Connections,
    digest::{Digest, Hasher},
    file::FileDownload,
    filter::Filter,
    journal::{FileRecord, Record},
    ledger::Ledger,
    names,
    progress::Counters,
    remote::{Listing, Placement, RemoteFile, Source},
    retry::RetryPolicy,
    target::Target,
};

/// The maximum number of files that are described or hashed at the same time before the download.
const CONCURRENCY: usize = 8;

/// The maximum number of files that a message names.
const MAX_NAMES: usize = 10;

/// The transfer of one source into one folder.
pub(crate) struct Transfer {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) target: Arc<Target>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) filter: Filter,
    /// Whether the network must not be used for any source.
    pub(crate) offline: bool,
    pub(crate) retries: RetryPolicy,
    /// The address, redacted.
    pub(crate) uri: String,
}

/// The files of a source, and which of them are present. There may be very many, so they stay in the list that the source has created.
struct FileSet {
    files: Vec<RemoteFile>,
    /// Whether each file is already in the folder.
    present: Vec<bool>,
}

// === impl FileSet ===

impl FileSet {
    fn missing(&self) -> impl Iterator<Item = &RemoteFile> {
        self.files.iter().zip(&self.present).filter(|(_, here)| !**here).map(|(file, _)| file)
    }
}

// === impl Transfer ===

impl Transfer {
    /// Downloads all files. A download that fails before anything arrived leaves no journal, so the cache does not show it as a
    /// model.
    pub(crate) async fn run(self) -> Result<(), FetchError> {
        let transfer = Arc::new(self);
        let result = transfer.clone().fetch().await;
        if result.is_err() {
            transfer.ledger.remove_if_empty(&transfer.target);
        }
        result
    }

    async fn fetch(self: Arc<Self>) -> Result<(), FetchError> {
        if self.offline || self.source.is_offline() {
            let Err(error) = self.clone().accept_present_files(None).await else { return Ok(()) };
            if !self.source.is_offline() {
                return Err(error);
            }
            // The hub's own cache may have the files.
            let Ok(listing) = self.source.list(&self.filter).await else { return Err(error) };
            return self.download(listing).await;
        }
        let listing = match self.source.list(&self.filter).await {
            Ok(listing) => listing,
            Err(error @ FetchError::Unreachable { .. }) => {
                return self.accept_present_files(Some(error)).await;
            }
            Err(FetchError::Status { status: status @ (408 | 425 | 429 | 500..), protocol, resource }) => {
                let error = FetchError::Unreachable {
                    protocol,
                    resource,
                    why: format!("the server answered {status}"),
                };
                return self.accept_present_files(Some(error)).await;
            }
            Err(error) => return Err(error),
        };
        self.download(listing).await
    }

    async fn download(self: Arc<Self>, listing: Listing) -> Result<(), FetchError> {
        if listing.files.is_empty() {
            return Err(self.no_files().await);
        }
        names::check_all(&listing.files, |file| (&*file.path, &*file.locator))?;
        let Listing { revision, files } = listing;
        let revision: Option<Arc<str>> = revision.map(Into::into);

        let mut wanted = self.clone().compare(files, revision.clone()).await?;
        self.clone().describe(&mut wanted, revision.as_ref()).await?;
        if wanted.missing().any(|file| file.placement != Placement::File) {
            // Later layers of an image change files of earlier layers, so all layers are unpacked again.
            for (file, here) in wanted.files.iter().zip(&mut wanted.present) {
                *here &= file.placement == Placement::File;
            }
        }
        self.count(&wanted);
        self.check_space(&wanted)?;

        let parallel = self.source.parallel();
        let sizes = wanted.missing().map(|file| file.size.unwrap_or(0));
        let connections = Arc::new(Connections::new(parallel.connections, sizes));
        let retries =
            RetryPolicy { attempts: parallel.attempts.unwrap_or(self.retries.attempts), ..self.retries };
        // There may be very many files, so only those in progress are cloned.
        let missing: Vec<usize> = (0..wanted.files.len()).filter(|index| !wanted.present[*index]).collect();
        let fetching = stream::iter(missing)
            .map(|index| {
                let file = wanted.files[index].clone();
                let fetching = FileDownload {
                    source: self.source.clone(),
                    target: self.target.clone(),
                    ledger: self.ledger.clone(),
                    counters: self.counters.clone(),
                    connections: connections.clone(),
                    retries,
                    revision: revision.clone(),
                    file,
                    counted: OnceLock::new(),
                };
                async move { fetching.run().await }
            })
            .buffer_unordered(parallel.files)
            .try_filter_map(|archive| async { Ok(archive) })
            .try_collect();
        let fetched: Vec<(RemoteFile, String)> = tokio::select! {
            fetched = fetching => fetched?,
            never = connections.allow_more_connections(&self.counters) => match never {},
        };
        self.counters.log_checks();

        let transfer = self.clone();
        let FileSet { mut files, .. } = wanted;
        blocking(move || {
            let unpacked = transfer.unpack(&files, fetched, revision.as_ref())?;
            files.retain(|file| file.placement == Placement::File);
            files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
            transfer.remove_gone(&files, &unpacked)?;
            transfer.ledger.finish(&transfer.target, revision.as_deref(), &transfer.filter.key())
        })
        .await
    }

    /// The error of a source without files that the patterns select. It names some files that the patterns leave out.
    async fn no_files(&self) -> FetchError {
        let empty = FetchError::Empty { source_uri: self.uri.clone() };
        if self.filter == Filter::default() {
            return empty;
        }
        let all = self.source.list(&Filter::default()).await.map(|listing| listing.files).unwrap_or_default();
        if all.is_empty() {
            return empty;
        }
        let [allow, ignore] = self.filter.shown().map(Option::unwrap_or_default);
        let mut names: Vec<String> =
            all.iter().take(MAX_NAMES).map(|file| names::shown(&file.path)).collect();
        if all.len() > MAX_NAMES {
            names.push("…".to_owned());
        }
        FetchError::NoneSelected { source_uri: self.uri.clone(), allow, ignore, files: names.join(", ") }
    }

    /// Finds the files that are already in the folder.
    async fn compare(
        self: Arc<Self>,
        files: Vec<RemoteFile>,
        revision: Option<Arc<str>>,
    ) -> Result<FileSet, FetchError> {
        blocking(move || {
            let archives = self.present_archives(&files, revision.as_deref())?;
            let is_present = |file: &RemoteFile| match file.placement {
                Placement::File => self.is_present(file, revision.as_deref()),
                Placement::Archive(_) => archives.contains(&*file.locator),
            };
            let present = files.iter().map(is_present).collect();
            Ok(FileSet { files, present })
        })
        .await
    }

    /// Whether a file is unchanged since its download, and the source still has the same content.
    fn is_present(&self, file: &RemoteFile, revision: Option<&str>) -> bool {
        self.ledger
            .done(&file.path)
            .is_some_and(|done| done.archive.is_none() && self.is_same(file, revision, &done))
    }

    pub(super) fn is_same(&self, file: &RemoteFile, revision: Option<&str>, done: &FileRecord) -> bool {
        let identity = done.identity.is_some() && file.identity().as_deref() == done.identity.as_deref();
        let revision = revision.is_some() && revision == done.revision.as_deref();
        // The same commit is enough until the file is described. Then its identity is known, and decides.
        (identity || (revision && !file.described)) && self.is_untouched(done)
    }

    fn is_untouched(&self, done: &FileRecord) -> bool {
        let stat = self.target.stat(&done.path);
        stat.is_some_and(|stat| (stat.size, stat.modified) == (done.size, done.modified))
    }

    /// Gets the properties that the listing did not contain, and checks the files again.
    async fn describe(
        self: Arc<Self>,
        wanted: &mut FileSet,
        revision: Option<&Arc<str>>,
    ) -> Result<(), FetchError> {
        let undescribed =
            wanted.files.iter_mut().zip(&wanted.present).filter(|(file, here)| !**here && !file.described);
        stream::iter(undescribed.map(Ok))
            .try_for_each_concurrent(CONCURRENCY, |(file, _)| async {
                *file = self.source.describe(file).await?;
                Ok(())
            })
            .await?;

        let is_missing =
            |index: &usize| !wanted.present[*index] && wanted.files[*index].placement == Placement::File;
        let missing: Vec<usize> = (0..wanted.files.len()).filter(is_missing).collect();
        // One task per file would start hundreds of threads for many small files. A single task would hash large files one
        // after the other.
        let pieces = missing.chunks(missing.len().div_ceil(CONCURRENCY).clamp(1, 1000));
        let pieces: Vec<Vec<usize>> = pieces.map(<[usize]>::to_vec).collect();
        let files = &wanted.files;
        let found: Vec<Vec<usize>> = stream::iter(pieces)
            .map(|piece| {
                let (transfer, revision) = (self.clone(), revision.cloned());
                let piece: Vec<_> = piece.into_iter().map(|index| (index, files[index].clone())).collect();
                blocking(move || {
                    let mut found = Vec::new();
                    for (index, file) in piece {
                        if transfer.is_present(&file, revision.as_deref())
                            || transfer.adopt(&file, revision.as_ref())?
                        {
                            found.push(index);
                        }
                    }
                    Ok(found)
                })
            })
            .buffer_unordered(CONCURRENCY)
            .try_collect()
            .await?;
        for index in found.into_iter().flatten() {
            wanted.present[index] = true;
        }
        Ok(())
    }

    /// Adopts a file that another program has downloaded, if its digest is that of the source.
    fn adopt(&self, file: &RemoteFile, revision: Option<&Arc<str>>) -> Result<bool, FetchError> {
        let (Some(digest), Some(size), Placement::File) = (&file.digest, file.size, &file.placement) else {
            return Ok(false);
        };
        let Some(stat) = self.target.stat(&file.path).filter(|stat| stat.size == size) else {
            return Ok(false);
        };
        let hashed = self.target.read(&file.path).and_then(|found| hash(&found, digest, size));
        if !hashed.is_ok_and(|hashed| hashed == *digest) {
            return Ok(false);
        }
        let done = FileRecord::new(&file.path, stat, file.identity(), revision);
        let written = self.ledger.append(&Record::Done(&FileRecord { digest: Some(*digest), ..done }));
        written.map_err(FetchError::file("keep a journal in", self.target.path()))?;
        Ok(true)
    }

    fn count(&self, wanted: &FileSet) {
        let sum = |sizes: &mut dyn Iterator<Item = &RemoteFile>| -> (u64, u64) {
            sizes.fold((0, 0), |(files, bytes), file| {
                (files + 1, bytes.saturating_add(file.size.unwrap_or(0)))
            })
        };
        let (files, bytes) = sum(&mut wanted.files.iter());
        let (missing, missing_bytes) = sum(&mut wanted.missing());
        self.counters.files.fetch_add(files, Relaxed);
        self.counters.files_done.fetch_add(files - missing, Relaxed);
        self.counters.bytes.fetch_add(bytes, Relaxed);
        self.counters.bytes_done.fetch_add(bytes - missing_bytes, Relaxed);
    }

    /// Fails if the volume has too little space. An archive needs its own size and at least the same size again for its
    /// content.
    fn check_space(&self, wanted: &FileSet) -> Result<(), FetchError> {
        let mut needed = 0_u64;
        for file in wanted.missing() {
            let written = self.ledger.partial(&file.path).filter(|partial| {
                partial.size == file.size && file.identity().is_none_or(|is| *is == *partial.identity)
            });
            let written: u64 = written.map_or(0, |partial| {
                partial.blocks.iter().map(|(start, end, _)| end.saturating_sub(*start)).sum()
            });
            let size = file.size.unwrap_or(0);
            let unpacked = if file.placement == Placement::File { 0 } else { size };
            needed = needed.saturating_add(size.saturating_sub(written)).saturating_add(unpacked);
        }
        self.target.check_space(needed)
    }

    /// Removes files that an earlier download made and the source no longer has. Other files stay. `wanted` is sorted by
    /// path.
    fn remove_gone(&self, wanted: &[RemoteFile], unpacked: &BTreeSet<String>) -> Result<(), FetchError> {
        let is_wanted = |path: &str| wanted.binary_search_by(|file| (*file.path).cmp(path)).is_ok();
        self.ledger.for_each_complete(|done| {
            if is_wanted(&done.path) || unpacked.contains(&done.path) {
                return Ok(());
            }
            let remove = || -> io::Result<()> {
                if self.is_untouched(&done) {
                    tracing::info!(file = &*done.path, "Removing a file that the source no longer has.");
                    self.target.remove(&done.path)?;
                }
                self.ledger.append(&Record::Gone(&done.path))
            };
            remove().map_err(FetchError::file("remove", self.target.path().join(&*done.path)))
        })
    }

    /// Accepts the existing files if the source cannot be used. All files must have been downloaded, and must be unchanged.
    async fn accept_present_files(self: Arc<Self>, error: Option<FetchError>) -> Result<(), FetchError> {
        let failed = || error.unwrap_or_else(|| FetchError::Offline { source_uri: self.uri.clone() });
        let complete = self.ledger.complete().is_some_and(|(_, filter)| filter == self.filter.key());
        if !complete {
            return Err(failed());
        }
        let transfer = self.clone();
        let all_right = blocking(move || {
            let mut all_right = true;
            transfer.ledger.for_each_complete(|done| {
                all_right = all_right && transfer.is_verified(&done);
                Ok(())
            })?;
            Ok(all_right)
        })
        .await?;
        if !all_right {
            return Err(failed());
        }
        tracing::warn!(
            source = self.uri,
            "The source did not list its files; using the files of an earlier download, which are complete \
             and unchanged."
        );
        Ok(())
    }

    fn is_verified(&self, done: &FileRecord) -> bool {
        // Members of archives, empty files and files for which the source announces no digest have size and time only.
        let Some(digest) = done.digest else { return self.is_untouched(done) };
        let hashed = self.target.read(&done.path).and_then(|file| hash(&file, &digest, done.size));
        hashed.is_ok_and(|hashed| hashed == digest)
    }
}

/// Computes the digest of a file that should have this size.
fn hash(file: &File, like: &Digest, size: u64) -> io::Result<Digest> {
    let mut hasher = Hasher::same_kind(like, size);
    read_range(file, 0..u64::MAX, &mut vec![0; 256 << 10], |bytes| hasher.update(bytes))?;
    Ok(hasher.finish())
}
