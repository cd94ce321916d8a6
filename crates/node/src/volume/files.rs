//! Volumes whose files change atomically.
//!
//! Kubernetes: pkg/volume/util/atomic_writer.go. The files are in a folder `..<number>`. `..data` links to that folder, and
//! each file of the volume links through `..data`. A new version is a new folder, and the rename of one link activates it.
//! So a reader sees a certificate and its key from the same version.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Component, Path};

use super::content::{File, Files};
use crate::private;

const DATA: &str = "..data";

/// Updates the volume in `folder` to `files`. Keeps the version if it has these files already.
pub(super) fn write(folder: &Path, files: &Files) -> io::Result<()> {
    if let Some(path) = files.keys().find(|path| !stays_inside(path)) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("path `{path}` leads out of the volume"),
        ));
    }
    let current = fs::read_link(folder.join(DATA)).ok();
    let is_same = current.as_ref().is_some_and(|current| same(&folder.join(current), files));
    if !is_same {
        write_version(folder, current.as_deref(), files)?;
    }
    // Also for the same files: the process may have ended after the rename of `..data`.
    update_links(folder, files)?;
    if let Some(old) = current.filter(|_| !is_same) {
        fs::remove_dir_all(folder.join(old))?;
    }
    Ok(())
}

/// Writes the files into a new folder, and lets `..data` link to it.
fn write_version(folder: &Path, current: Option<&Path>, files: &Files) -> io::Result<()> {
    let number = current
        .and_then(|current| current.to_str()?.strip_prefix("..")?.parse::<u64>().ok())
        .map_or(1, |number| number + 1);
    let version = format!("..{number}");
    let version_dir = folder.join(&version);
    // The folder may be left over from a failed attempt.
    let _ = fs::remove_dir_all(&version_dir);
    private::create_dir(&version_dir)?;
    for (path, File { bytes, mode }) in files {
        let target = version_dir.join(path);
        if let Some(parent) = target.parent() {
            private::create_dir(parent)?;
        }
        let mut open = fs::OpenOptions::new();
        // There is only one user, so permissions for others are dropped.
        let mode = mode & 0o700 | 0o400;
        io::Write::write_all(&mut open.write(true).create_new(true).mode(mode).open(target)?, bytes)?;
    }
    let next = folder.join("..data_next");
    // Left over from a failed attempt, as above.
    let _ = fs::remove_file(&next);
    symlink(&version, &next)?;
    fs::rename(&next, folder.join(DATA))
}

/// Creates the missing links to the files, and removes those to files that are gone.
fn update_links(folder: &Path, files: &Files) -> io::Result<()> {
    let names: BTreeSet<&str> = files.keys().filter_map(|path| path.split('/').next()).collect();
    for entry in fs::read_dir(folder)?.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // Containers can write here, for example Python its `__pycache__`: only links are the volume's.
        let is_link = entry.file_type()?.is_symlink();
        if is_link && !name.starts_with("..") && !names.contains(name.as_ref()) {
            fs::remove_file(entry.path())?;
        }
    }
    for name in names {
        let link = folder.join(name);
        if link.symlink_metadata().is_err() {
            symlink(Path::new(DATA).join(name), link)?;
        }
    }
    Ok(())
}

fn stays_inside(path: &str) -> bool {
    !path.is_empty()
        && !path.starts_with("..")
        && Path::new(path).components().all(|component| matches!(component, Component::Normal(_)))
}

/// Whether a version holds exactly these files.
fn same(version: &Path, files: &Files) -> bool {
    count(version) == files.len()
        && files
            .iter()
            .all(|(path, file)| fs::read(version.join(path)).is_ok_and(|bytes| bytes == file.bytes))
}

fn count(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { count(&entry.path()) } else { 1 }).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(pairs: &[(&str, &str)]) -> Files {
        pairs
            .iter()
            .map(|(path, text)| ((*path).to_owned(), File { bytes: text.as_bytes().to_vec(), mode: 0o600 }))
            .collect()
    }

    #[test]
    fn a_new_version_replaces_all_files_at_once_and_the_same_one_writes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &files(&[("a", "1"), ("b/c", "2")])).unwrap();
        let first = fs::read_link(dir.path().join(DATA)).unwrap();
        write(dir.path(), &files(&[("a", "1"), ("b/c", "2")])).unwrap();
        assert_eq!(fs::read_link(dir.path().join(DATA)).unwrap(), first);
        write(dir.path(), &files(&[("a", "3")])).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "3");
        assert!(dir.path().join("b").symlink_metadata().is_err());
        assert!(!dir.path().join(first).exists());
    }

    #[test]
    fn an_interrupted_update_is_completed() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &files(&[("a", "1")])).unwrap();
        let link = dir.path().join("a");
        fs::remove_file(&link).unwrap();
        write(dir.path(), &files(&[("a", "1")])).unwrap();
        assert_eq!(fs::read_to_string(link).unwrap(), "1");
    }

    #[test]
    fn what_a_container_has_written_stays_and_stops_no_update() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &files(&[("a", "1")])).unwrap();
        let own = dir.path().join("__pycache__");
        fs::create_dir(&own).unwrap();
        write(dir.path(), &files(&[("b", "2")])).unwrap();
        assert!(own.is_dir() && !dir.path().join("a").exists());
        assert_eq!(fs::read_to_string(dir.path().join("b")).unwrap(), "2");
    }

    #[test]
    fn a_path_that_leaves_the_volume_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["../x", "/x", "a/../../x", ""] {
            assert!(write(dir.path(), &files(&[(path, "1")])).is_err(), "{path}");
        }
    }
}
