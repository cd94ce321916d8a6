//! Brings the files of a source into a folder: keeps existing files, fetches missing ones, and removes those that the source no
//! longer has.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Read},
    sync::{Arc, atomic::Ordering::Relaxed},
};

use futures::{StreamExt, TryStreamExt, stream};
use tokio::{sync::Semaphore, task::spawn_blocking};

use crate::{
    FetchError, archive,
    digest::{Digest, Hasher},
    file::Fetching,
    filter::Filter,
    journal::{Done, Record},
    ledger::Ledger,
    names,
    progress::Counters,
    retry::Patience,
    source::{Listing, Placement, Remote, Source},
    target::Target,
};

/// The transfer of one source into one folder.
pub(crate) struct Transfer {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) target: Arc<Target>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) filter: Filter,
    /// Whether the network must not be used for any source.
    pub(crate) offline: bool,
    pub(crate) patience: Patience,
    /// The address, redacted.
    pub(crate) uri: String,
}

/// A wanted file, and whether it is already there.
struct Item {
    file: Remote,
    is_here: bool,
}

// === impl Transfer ===

impl Transfer {
    /// Brings all files.
    pub(crate) async fn run(self) -> Result<(), FetchError> {
        let transfer = Arc::new(self);
        if transfer.offline || transfer.source.is_offline() {
            let Err(error) = transfer.clone().accept_what_is_here(None).await else { return Ok(()) };
            if !transfer.source.is_offline() {
                return Err(error);
            }
            // The hub's own cache may have the files.
            let Ok(listing) = transfer.source.list(&transfer.filter).await else { return Err(error) };
            return transfer.bring(listing).await;
        }
        let listing = match transfer.source.list(&transfer.filter).await {
            Ok(listing) => listing,
            Err(error @ FetchError::Unreachable { .. }) => {
                return transfer.clone().accept_what_is_here(Some(error)).await;
            }
            Err(FetchError::Status { status: status @ (408 | 425 | 429 | 500..), protocol, resource }) => {
                let error = FetchError::Unreachable {
                    protocol,
                    resource,
                    why: format!("the server answered {status}"),
                };
                return transfer.clone().accept_what_is_here(Some(error)).await;
            }
            Err(error) => return Err(error),
        };
        transfer.bring(listing).await
    }

    async fn bring(self: Arc<Self>, listing: Listing) -> Result<(), FetchError> {
        if listing.files.is_empty() {
            return Err(FetchError::Empty { source_uri: self.uri.clone() });
        }
        names::check_all(listing.files.iter().map(|file| (&*file.path, &*file.locator)))?;
        let Listing { revision, files } = listing;
        let revision: Option<Arc<str>> = revision.map(Into::into);

        let mut items = self.clone().compare(files, revision.clone()).await?;
        self.clone().describe(&mut items, revision.as_ref()).await?;
        let is_missing = |item: &Item| item.file.placement != Placement::File && !item.is_here;
        if items.iter().any(is_missing) {
            // Later layers of an image change files of earlier layers, so all layers are unpacked again.
            for item in items.iter_mut().filter(|item| item.file.placement != Placement::File) {
                item.is_here = false;
            }
        }
        self.count(&items);
        self.check_space(&items)?;

        let parallel = self.source.parallel();
        let connections = Arc::new(Semaphore::new(parallel.connections));
        // There may be very many files, so only those in progress are cloned.
        let missing: Vec<usize> = (0..items.len()).filter(|index| !items[*index].is_here).collect();
        let patience =
            Patience { attempts: parallel.attempts.unwrap_or(self.patience.attempts), ..self.patience };
        let fetched: Vec<(Remote, String)> = stream::iter(missing)
            .map(|index| {
                let file = items[index].file.clone();
                let fetching = Fetching::new(&self, file, revision.clone(), patience, connections.clone());
                async move { fetching.run().await }
            })
            .buffer_unordered(parallel.files)
            .try_filter_map(|archive| async { Ok(archive) })
            .try_collect()
            .await?;

        let transfer = self.clone();
        let mut wanted: Vec<_> = items.into_iter().map(|item| item.file).collect();
        blocking(move || {
            let unpacked = transfer.unpack(&wanted, fetched, revision.as_ref())?;
            wanted.retain(|file| file.placement == Placement::File);
            wanted.sort_unstable_by(|one, other| one.path.cmp(&other.path));
            transfer.remove_gone(&wanted, &unpacked)?;
            transfer.ledger.finish(&transfer.target, revision.as_deref(), &transfer.filter.key())
        })
        .await
    }

    /// Marks the files that are already in the folder.
    async fn compare(
        self: Arc<Self>,
        files: Vec<Remote>,
        revision: Option<Arc<str>>,
    ) -> Result<Vec<Item>, FetchError> {
        blocking(move || {
            let all = self.ledger.all_done();
            let mut items = Vec::with_capacity(files.len());
            for file in files {
                let is_here = self.is_here(&file, revision.as_deref(), &all);
                items.push(Item { file, is_here });
            }
            Ok(items)
        })
        .await
    }

    /// Whether a file is unchanged since its download, and the source still has the same content.
    fn is_here(&self, file: &Remote, revision: Option<&str>, all: &[Arc<Done>]) -> bool {
        let same = |done: &Done| {
            let identity = file.identity.is_some() && file.identity == done.identity;
            let revision = revision.is_some() && revision == done.revision.as_deref();
            let stat = self.target.stat(&done.path);
            (identity || (revision && !file.described))
                && stat.is_some_and(|stat| (stat.size, stat.modified) == (done.size, done.modified))
        };
        match &file.placement {
            Placement::File => {
                self.ledger.done(&file.path).is_some_and(|done| done.archive.is_none() && same(&done))
            }
            Placement::Archive(members) => {
                let filter = self.ledger.complete().map(|(_, filter)| filter);
                let mut of = all
                    .iter()
                    .map(AsRef::as_ref)
                    .filter(|done: &&Done| done.archive.as_ref() == Some(&file.locator))
                    .peekable();
                // A layer without wanted files leaves no files behind. So a layer of an image also counts as there if the whole
                // source is complete.
                let known = of.peek().is_some() || (members.whiteouts && filter.is_some());
                known && filter.as_ref() == Some(&self.filter.key()) && of.all(same)
            }
        }
    }

    /// Gets the properties that the listing did not contain, and checks the files again.
    async fn describe(
        self: Arc<Self>,
        items: &mut [Item],
        revision: Option<&Arc<str>>,
    ) -> Result<(), FetchError> {
        let missing = items.iter_mut().filter(|item| !item.is_here);
        stream::iter(missing.map(Ok))
            .try_for_each_concurrent(8, |item| {
                let (transfer, revision) = (self.clone(), revision.cloned());
                async move {
                    if !item.file.described {
                        item.file = transfer.source.describe(&item.file).await?;
                    }
                    let file = item.file.clone();
                    item.is_here = blocking(move || {
                        Ok(transfer.is_here(&file, revision.as_deref(), &[])
                            || transfer.adopt(&file, revision.as_ref())?)
                    })
                    .await?;
                    Ok(())
                }
            })
            .await
    }

    /// Adopts a file that another program has downloaded, if its digest is that of the source.
    fn adopt(&self, file: &Remote, revision: Option<&Arc<str>>) -> Result<bool, FetchError> {
        let (Some(digest), Some(size), Placement::File) = (&file.digest, file.size, &file.placement) else {
            return Ok(false);
        };
        let Some(stat) = self.target.stat(&file.path).filter(|stat| stat.size == size) else {
            return Ok(false);
        };
        let hashed = self.target.read(&file.path).and_then(|mut found| hash(&mut found, digest, size));
        if !hashed.is_ok_and(|hashed| hashed == *digest) {
            return Ok(false);
        }
        let done = Done {
            path: file.path.clone(),
            size,
            modified: stat.modified,
            identity: file.identity.clone(),
            digest: Some(*digest),
            revision: revision.cloned(),
            archive: None,
        };
        let written = self.ledger.append(&Record::Done(&Arc::new(done)));
        written.map_err(FetchError::file("keep a journal in", self.target.path()))?;
        Ok(true)
    }

    fn count(&self, items: &[Item]) {
        let sizes = |here: Option<bool>| -> u64 {
            let items = items.iter().filter(|item| here.is_none_or(|here| item.is_here == here));
            items.filter_map(|item| item.file.size).sum()
        };
        self.counters.files.fetch_add(items.len() as u64, Relaxed);
        self.counters.files_done.fetch_add(items.iter().filter(|item| item.is_here).count() as u64, Relaxed);
        self.counters.bytes.fetch_add(sizes(None), Relaxed);
        self.counters.bytes_done.fetch_add(sizes(Some(true)), Relaxed);
    }

    /// Fails if the volume has too little space. An archive needs its own size and at least the same size again for its
    /// content.
    fn check_space(&self, items: &[Item]) -> Result<(), FetchError> {
        let mut needed = 0_u64;
        for Item { file, .. } in items.iter().filter(|item| !item.is_here) {
            let written = self.ledger.partial(&file.path).filter(|partial| {
                partial.size == file.size && file.identity.as_ref().is_none_or(|is| **is == partial.identity)
            });
            let written: u64 = written.map_or(0, |partial| {
                partial.blocks.iter().map(|(start, end, _)| end.saturating_sub(*start)).sum()
            });
            let size = file.size.unwrap_or(0);
            let unpacked = if file.placement == Placement::File { 0 } else { size };
            needed = needed.saturating_add(size.saturating_sub(written)).saturating_add(unpacked);
        }
        match self.target.free() {
            Some(free) if free < needed => {
                Err(FetchError::Space { folder: self.target.path().to_owned(), needed, free })
            }
            _ => Ok(()),
        }
    }

    /// Unpacks the archives in order beside the target's files, then moves all members to their places. Returns the members'
    /// paths.
    fn unpack(
        &self,
        wanted: &[Remote],
        mut fetched: Vec<(Remote, String)>,
        revision: Option<&Arc<str>>,
    ) -> Result<BTreeSet<Arc<str>>, FetchError> {
        if fetched.is_empty() {
            let archives = wanted.iter().filter(|file| file.placement != Placement::File);
            let names: BTreeSet<&str> = archives.map(|file| &*file.locator).collect();
            let all = self.ledger.all_done().into_iter();
            return Ok(all
                .filter(|done| done.archive.as_deref().is_some_and(|archive| names.contains(archive)))
                .map(|done| done.path.clone())
                .collect());
        }
        let order = |file: &Remote| wanted.iter().position(|other| other.locator == file.locator);
        fetched.sort_by_key(|(file, _)| order(file));
        let staging = format!("{}-unpacked", self.ledger.key);
        let at = self.target.private_path(&staging);
        let stage = || -> io::Result<archive::Stage> {
            self.target.remove_private(&staging)?;
            std::fs::create_dir(&at)?;
            Ok(archive::Stage::open(&at, self.target.free()))
        };
        let mut stage = stage().map_err(FetchError::file("unpack in", &at))?;
        for (file, private) in &fetched {
            let Placement::Archive(members) = &file.placement else { continue };
            let opened = self.target.private(private).map_err(FetchError::file("read", &*file.path))?;
            stage.unpack(opened, &file.path, &file.locator, members)?;
        }
        let members = stage.finish();
        if members.is_empty() {
            return Err(FetchError::Empty { source_uri: self.uri.clone() });
        }
        names::check_all(
            members
                .iter()
                .filter(|member| !member.is_folder)
                .map(|member| (member.path.as_str(), member.path.as_str())),
        )?;
        let files: BTreeSet<&str> =
            wanted.iter().filter(|file| file.placement == Placement::File).map(|file| &*file.path).collect();
        let mut paths = BTreeSet::new();
        for member in &members {
            if files.contains(member.path.as_str()) {
                return Err(FetchError::Name {
                    name: names::shown(&member.path),
                    why: "an archive and the source itself have a file of this name".into(),
                });
            }
            let moved = self.place(&at, member, &fetched, revision);
            moved.map_err(FetchError::file("write", self.target.path().join(&member.path)))?;
            paths.insert(member.path.as_str().into());
        }
        let ended = || -> io::Result<()> {
            for (_, private) in &fetched {
                self.target.remove_private(private)?;
            }
            self.target.remove_private(&staging)
        };
        ended().map_err(FetchError::file("tidy up", &at))?;
        Ok(paths)
    }

    fn place(
        &self,
        staging: &std::path::Path,
        member: &archive::Member,
        fetched: &[(Remote, String)],
        revision: Option<&Arc<str>>,
    ) -> io::Result<()> {
        if member.is_folder {
            return self.target.make_folder(&member.path);
        }
        let stat = self.target.take(&staging.join(&member.path), &member.path)?;
        if member.is_link {
            return Ok(());
        }
        let archive = fetched.iter().find(|(file, _)| *file.locator == *member.archive);
        let done = Done {
            path: member.path.as_str().into(),
            size: stat.size,
            modified: stat.modified,
            identity: archive.and_then(|(file, _)| file.identity.clone()),
            digest: None,
            revision: revision.cloned(),
            archive: Some(member.archive.as_str().into()),
        };
        self.ledger.append(&Record::Done(&Arc::new(done)))
    }

    /// Removes files that an earlier download brought and the source no longer has. Other files stay. `wanted` is sorted by
    /// path.
    fn remove_gone(&self, wanted: &[Remote], unpacked: &BTreeSet<Arc<str>>) -> Result<(), FetchError> {
        let is_wanted = |path: &str| wanted.binary_search_by(|file| (*file.path).cmp(path)).is_ok();
        for done in self.ledger.all_done() {
            if is_wanted(&done.path) || unpacked.contains(&done.path) {
                continue;
            }
            let stat = self.target.stat(&done.path);
            let is_ours = stat.is_some_and(|stat| (stat.size, stat.modified) == (done.size, done.modified));
            let remove = || -> io::Result<()> {
                if is_ours {
                    tracing::info!(
                        file = &*done.path,
                        "The source does not have this file any more: removing it."
                    );
                    self.target.remove(&done.path)?;
                }
                self.ledger.append(&Record::Gone(&done.path))
            };
            remove().map_err(FetchError::file("remove", self.target.path().join(&*done.path)))?;
        }
        Ok(())
    }

    /// Accepts the existing files if the source cannot be used. All files must have been downloaded, and every digest must be
    /// right.
    async fn accept_what_is_here(self: Arc<Self>, error: Option<FetchError>) -> Result<(), FetchError> {
        let failed = || {
            let resource = self.source.resource().to_owned();
            error.unwrap_or(FetchError::Offline { resource })
        };
        let complete = self.ledger.complete().is_some_and(|(_, filter)| filter == self.filter.key());
        if !complete {
            return Err(failed());
        }
        let transfer = self.clone();
        let all_right =
            blocking(move || Ok(transfer.ledger.all_done().iter().all(|done| transfer.is_verified(done))))
                .await?;
        if !all_right {
            return Err(failed());
        }
        tracing::warn!(
            "{} cannot be asked; everything that was brought before is complete, and its digests are right.",
            self.uri
        );
        Ok(())
    }

    fn is_verified(&self, done: &Done) -> bool {
        let Some(digest) = done.digest else { return false };
        let hashed = self.target.read(&done.path).and_then(|mut file| hash(&mut file, &digest, done.size));
        hashed.is_ok_and(|hashed| hashed == digest)
    }
}

/// Computes the digest of a file that should have this size.
fn hash(file: &mut File, like: &Digest, size: u64) -> io::Result<Digest> {
    let mut hasher = Hasher::new(like.algorithm, size);
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            count => hasher.update(&buffer[..count]),
        }
    }
}

/// Runs blocking disk work on a thread where it blocks no async task.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FetchError> + Send + 'static,
) -> Result<T, FetchError> {
    spawn_blocking(work).await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}
