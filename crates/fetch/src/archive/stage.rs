//! The stage: a new folder beside the target's files. Archives are unpacked there, and moved into place when all have
//! succeeded. Members of later archives replace those of earlier ones.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File},
    ops::Bound,
    os::unix::fs::{OpenOptionsExt, symlink},
    path::{Path, PathBuf},
};

use super::{
    problem::Problem,
    rules::{masked, stays_inside},
};
use crate::names;

/// A folder that archives are unpacked to.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(super) root: PathBuf,
    /// The bytes that are free there, if that is known.
    pub(super) free: Option<u64>,
    /// The members, by path.
    members: BTreeMap<String, Member>,
    /// The folders that the current archive has made opaque.
    opaque: HashSet<String>,
}

/// What a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Folder,
    Link,
}

/// An unpacked member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) kind: EntryKind,
    /// The archive that contains the member.
    pub(crate) archive: String,
}

// === impl Stage ===

impl Stage {
    /// Creates a stage in an empty private folder.
    pub(crate) fn open(root: &Path, free: Option<u64>) -> Self {
        Self { root: root.to_owned(), free, members: BTreeMap::new(), opaque: HashSet::new() }
    }

    /// Returns all members that were unpacked and not removed again, by their paths below the stage, and later below the target.
    pub(crate) fn finish(self) -> BTreeMap<String, Member> {
        self.members
    }

    /// Begins with the next archive.
    pub(super) fn start_archive(&mut self) {
        self.opaque.clear();
    }

    /// Handles a whiteout of an image layer: a name that begins with `.wh.` removes the member with the rest of the name.
    /// Returns whether the name is a whiteout.
    pub(super) fn white_out(&mut self, path: &str, archive: &str) -> Result<bool, Problem> {
        let (folder, name) = path.rsplit_once('/').map_or(("", path), |(folder, name)| (folder, name));
        let Some(hidden) = name.strip_prefix(".wh.") else { return Ok(false) };
        let below = |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        if hidden == ".wh..opq" {
            self.hide_earlier(below(""), archive)?;
        } else if !hidden.is_empty() {
            self.remove(&below(hidden))?;
        }
        Ok(true)
    }

    /// Removes what earlier archives have below this path. The marker of an opaque folder hides lower layers only, and the OCI image
    /// specification only recommends that it comes before the content of its own layer.
    fn hide_earlier(&mut self, start: String, archive: &str) -> Result<(), Problem> {
        // An archive can repeat the marker, and each look reads all members of the folder.
        if self.opaque.contains(&start) {
            return Ok(());
        }
        let below = self.members.range::<str, _>((Bound::Included(&*start), Bound::Unbounded));
        let below = below.take_while(|(path, _)| path.starts_with(&start));
        let earlier: Vec<_> = below
            .filter(|(_, member)| member.archive != archive)
            .map(|(path, member)| (path.clone(), member.kind))
            .collect();
        // The content of a folder sorts behind the folder, so the content goes first. What this archive has in an earlier folder stays,
        // and so does the folder.
        for (path, kind) in earlier.into_iter().rev() {
            if kind != EntryKind::Folder || self.first_below(&format!("{path}/")).is_none() {
                self.remove(&path)?;
            }
        }
        self.opaque.insert(start);
        Ok(())
    }

    /// Removes a member and, if it is a folder, its content.
    fn remove(&mut self, path: &str) -> Result<(), Problem> {
        let Some(found) = self.members.remove(path) else { return Ok(()) };
        let at = self.root.join(path);
        if found.kind == EntryKind::Folder {
            fs::remove_dir_all(&at)?;
            let start = format!("{path}/");
            while let Some(first) = self.first_below(&start) {
                self.members.remove(&first);
            }
        } else {
            fs::remove_file(&at)?;
        }
        Ok(())
    }

    /// The first member whose path begins so. Only such paths are read: a layer can have as many whiteouts as members.
    fn first_below(&self, start: &str) -> Option<String> {
        let next = self.members.range::<str, _>((Bound::Included(start), Bound::Unbounded)).next();
        next.map(|(path, _)| path).filter(|path| path.starts_with(start)).cloned()
    }

    /// Creates a folder that an archive names, and its parents. It replaces a file or a link of an earlier archive.
    pub(super) fn folder(&mut self, path: &str, archive: &str) -> Result<(), Problem> {
        let is_other = |found: &Member| found.kind != EntryKind::Folder && found.archive != archive;
        if self.members.get(path).is_some_and(is_other) {
            self.remove(path)?;
        }
        self.folders(path, archive)
    }

    /// Creates a folder and its parents. The stage creates all of them itself, so none is a symbolic link.
    fn folders(&mut self, path: &str, archive: &str) -> Result<(), Problem> {
        if path.is_empty() {
            return Ok(());
        }
        for (at, _) in path.match_indices('/').chain([(path.len(), "")]) {
            let folder = &path[..at];
            match self.members.get(folder).map(|found| found.kind) {
                Some(EntryKind::Folder) => {}
                None => {
                    fs::create_dir(self.root.join(folder))?;
                    self.members.insert(
                        folder.to_owned(),
                        Member { kind: EntryKind::Folder, archive: archive.to_owned() },
                    );
                }
                Some(_) => {
                    let (path, folder) = (names::shown(path), names::shown(folder));
                    return Err(format!("`{path}` is below `{folder}`, which is not a folder").into());
                }
            }
        }
        Ok(())
    }

    /// Prepares the place of a member that is not a folder. A later member replaces an earlier one, also a folder of an earlier
    /// archive: image layers replace whole entries (OCI image specification, "Layer Filesystem Changeset").
    fn room(&mut self, path: &str, kind: EntryKind, archive: &str) -> Result<PathBuf, Problem> {
        if let Some((above, _)) = path.rsplit_once('/') {
            self.folders(above, archive)?;
        }
        let is_own_folder = |found: &Member| found.kind == EntryKind::Folder && found.archive == archive;
        if self.members.get(path).is_some_and(is_own_folder) {
            return Err(format!("`{}` is both a folder and another kind of file", names::shown(path)).into());
        }
        self.remove(path)?;
        self.members.insert(path.to_owned(), Member { kind, archive: archive.to_owned() });
        Ok(self.root.join(path))
    }

    /// Creates a file.
    pub(super) fn create(&mut self, path: &str, archive: &str, mode: u32) -> Result<File, Problem> {
        let at = self.room(path, EntryKind::File, archive)?;
        Ok(File::options().write(true).create_new(true).mode(masked(mode)).open(at)?)
    }

    /// Creates a symbolic link.
    pub(super) fn link(&mut self, path: &str, to: &str, archive: &str) -> Result<(), Problem> {
        if !stays_inside(path, to) {
            return Err(
                format!("`{}` is a link to a target outside of the folder", names::shown(path)).into()
            );
        }
        let at = self.room(path, EntryKind::Link, archive)?;
        Ok(symlink(to, at)?)
    }

    /// Makes a path another name of an earlier file.
    pub(super) fn same(&mut self, path: &str, to: &str, archive: &str) -> Result<(), Problem> {
        if self.members.get(to).is_none_or(|found| found.kind != EntryKind::File) {
            let (path, to) = (names::shown(path), names::shown(to));
            return Err(
                format!("`{path}` is a link to `{to}`, which is not an earlier file of the archive").into()
            );
        }
        if path == to {
            return Ok(());
        }
        let at = self.room(path, EntryKind::File, archive)?;
        Ok(fs::hard_link(self.root.join(to), at)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whiteouts_read_only_the_members_that_they_hide() {
        // With a look at each member for each whiteout, this is 40 thousand million looks.
        const COUNT: usize = 200_000;
        let dir = tempfile::tempdir().unwrap();
        let mut stage = Stage::open(dir.path(), None);
        let entry = |kind| Member { kind, archive: "0".into() };
        stage.members.extend((0..COUNT).map(|number| (format!("kept/{number}"), entry(EntryKind::File))));
        for number in 0..COUNT {
            stage.white_out(&format!("kept/{number}/.wh..wh..opq"), "1").unwrap();
        }
        for folder in ["a", "a-b", "a/b", "a/b/c", "b"] {
            stage.folder(folder, "0").unwrap();
        }
        stage.white_out("a/.wh..wh..opq", "1").unwrap();
        stage.white_out(".wh.b", "1").unwrap();
        let left: Vec<String> = stage
            .finish()
            .into_iter()
            .filter(|(_, member)| member.kind == EntryKind::Folder)
            .map(|(path, _)| path)
            .collect();
        assert_eq!(left, ["a", "a-b"]);
    }
}
