//! The archives of a transfer: which are unpacked already, and the unpacking of the others.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
};

use super::Transfer;
use crate::{
    FetchError,
    archive::{self, EntryKind},
    journal::{FileRecord, Record},
    names,
    remote::{Placement, RemoteFile},
};

impl Transfer {
    /// Returns the archives whose members are all unchanged since their download.
    pub(super) fn present_archives(
        &self,
        files: &[RemoteFile],
        revision: Option<&str>,
    ) -> Result<BTreeSet<Arc<str>>, FetchError> {
        let archives = files.iter().filter(|file| file.placement != Placement::File);
        // For each archive: whether any of its members is known, and whether all known members are unchanged.
        let mut archives: BTreeMap<&str, (&RemoteFile, bool, bool)> =
            archives.map(|file| (&*file.locator, (file, false, true))).collect();
        let is_complete = self.ledger.complete().is_some_and(|(_, filter)| filter == self.filter.key());
        if archives.is_empty() || !is_complete {
            return Ok(BTreeSet::new());
        }
        self.ledger.for_each_complete(|done| {
            if let Some((file, known, here)) = done.archive.as_deref().and_then(|name| archives.get_mut(name))
            {
                *known = true;
                *here = *here && self.is_same(file, revision, &done);
            }
            Ok(())
        })?;
        let is_present = |(file, known, here): (&RemoteFile, bool, bool)| {
            // A layer without wanted files leaves no files behind.
            let is_layer = matches!(&file.placement, Placement::Archive(members) if members.whiteouts);
            ((known || is_layer) && here).then(|| file.locator.clone())
        };
        Ok(archives.into_values().filter_map(is_present).collect())
    }

    /// Unpacks the archives in order beside the target's files, then moves all members to their places. Returns the members'
    /// paths.
    pub(super) fn unpack(
        &self,
        wanted: &[RemoteFile],
        mut fetched: Vec<(RemoteFile, String)>,
        revision: Option<&Arc<str>>,
    ) -> Result<BTreeSet<String>, FetchError> {
        if fetched.is_empty() {
            let archives = wanted.iter().filter(|file| file.placement != Placement::File);
            let names: BTreeSet<&str> = archives.map(|file| &*file.locator).collect();
            let mut paths = BTreeSet::new();
            if !names.is_empty() {
                self.ledger.for_each_complete(|done| {
                    if done.archive.as_deref().is_some_and(|archive| names.contains(archive)) {
                        paths.insert(done.path);
                    }
                    Ok(())
                })?;
            }
            return Ok(paths);
        }
        let order = |file: &RemoteFile| wanted.iter().position(|other| other.locator == file.locator);
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
        let paths: Vec<&str> = members
            .iter()
            .filter(|(_, member)| member.kind != EntryKind::Folder)
            .map(|(path, _)| path.as_str())
            .collect();
        names::check_all(&paths, |path| (*path, *path))?;
        let files: BTreeSet<&str> =
            wanted.iter().filter(|file| file.placement == Placement::File).map(|file| &*file.path).collect();
        let mut paths = BTreeSet::new();
        for (path, member) in &members {
            if files.contains(path.as_str()) {
                return Err(FetchError::Name {
                    name: names::shown(path),
                    why: "both an archive and the source have a file with this name".into(),
                });
            }
            let moved = self.place(&at, path, member, &fetched, revision);
            moved.map_err(FetchError::file("write", self.target.path().join(path)))?;
            paths.insert(path.clone());
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
        path: &str,
        member: &archive::Member,
        fetched: &[(RemoteFile, String)],
        revision: Option<&Arc<str>>,
    ) -> io::Result<()> {
        if member.kind == EntryKind::Folder {
            return self.target.make_folder(path);
        }
        let stat = self.target.take(&staging.join(path), path)?;
        if member.kind == EntryKind::Link {
            return Ok(());
        }
        let archive = fetched.iter().find(|(file, _)| *file.locator == *member.archive);
        let identity = archive.and_then(|(file, _)| file.identity());
        let done = FileRecord::new(path, stat, identity, revision);
        self.ledger.append(&Record::Done(&FileRecord { archive: Some(member.archive.clone()), ..done }))
    }
}
