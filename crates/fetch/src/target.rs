//! The folder that a model is downloaded into. Nothing is written outside of it, whatever names and links it contains.

use std::{
    fs::{self, File},
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};

use crate::{
    FetchError,
    names::{self, OWN_FOLDER},
};

/// An open folder.
#[derive(Debug)]
pub(crate) struct Target {
    path: PathBuf,
    folder: OwnedFd,
    own: OwnedFd,
    /// The lock of the folder, which allows only one download at a time.
    _lock: File,
}

/// The size and time of a file in the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Size in bytes.
    pub(crate) size: u64,
    /// Time of the last modification, in nanoseconds since 1970.
    pub(crate) modified: i64,
}

/// The maximum number of bytes that a file of unknown size leaves free.
const MAX_RESERVE: u64 = 1 << 30;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const FOLDER_MODE: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);
const FILE_MODE: Mode = Mode::from_raw_mode(0o666);

// === impl Target ===

impl Target {
    /// Opens an existing folder, and waits until no other download uses it. Creates it again if it was removed meanwhile.
    pub(crate) fn open(path: &Path) -> Result<Self, FetchError> {
        let opened = || -> io::Result<Option<(OwnedFd, OwnedFd, File)>> {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let folder = rustix::fs::open(path, flags, Mode::empty())?;
            make_folder(&folder, OWN_FOLDER)?;
            let own = open_folder(&folder, OWN_FOLDER)?;
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let lock = File::from(rustix::fs::openat(&own, "lock", flags, FILE_MODE)?);
            if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
                tracing::info!(folder = %path.display(), "Waiting for another download in this folder.");
                rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
            }
            // Who held the lock may have removed the folder meanwhile, and this file with it. The lock then protects nothing.
            let is_removed = rustix::fs::fstat(&lock)?.st_nlink == 0;
            Ok((!is_removed).then_some((folder, own, lock)))
        };
        loop {
            if let Some((folder, own, lock)) = opened().map_err(FetchError::file("write to", path))? {
                return Ok(Self { path: path.to_owned(), folder, own, _lock: lock });
            }
            fs::create_dir_all(path).map_err(FetchError::file("create", path))?;
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that are free for this user.
    pub(crate) fn free(&self) -> Option<u64> {
        let stat = rustix::fs::fstatvfs(&self.folder).ok()?;
        Some(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Fails if fewer bytes are free.
    pub(crate) fn check_space(&self, needed: u64) -> Result<(), FetchError> {
        match self.free() {
            Some(free) if free < needed => {
                Err(FetchError::Space { folder: self.path().to_owned(), needed, free })
            }
            _ => Ok(()),
        }
    }

    /// Bytes that a file of unknown size must leave free, because other programs need space on the volume too.
    pub(crate) fn reserve(&self) -> u64 {
        let total =
            rustix::fs::fstatvfs(&self.folder).map(|stat| stat.f_blocks.saturating_mul(stat.f_frsize));
        total.map_or(0, |total| (total / 10).min(MAX_RESERVE))
    }

    /// Returns size and time of a regular file. Returns `None` for anything else. Links are not followed.
    pub(crate) fn stat(&self, path: &str) -> Option<Stat> {
        let (folder, name) = parent(&self.folder, path, false).ok()?;
        let stat = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then(|| of(&stat))
    }

    /// Opens a file for reading.
    pub(crate) fn read(&self, path: &str) -> io::Result<File> {
        let (folder, name) = parent(&self.folder, path, false)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&folder, name, flags, Mode::empty())?))
    }

    /// Opens a private file for reading and writing. Creates it if it is missing.
    pub(crate) fn private(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.own, name, flags, FILE_MODE)?))
    }

    /// Returns the path of a private file or folder, for callers that need a path.
    pub(crate) fn private_path(&self, name: &str) -> PathBuf {
        self.path.join(OWN_FOLDER).join(name)
    }

    /// Moves a private file to its final name, and returns its size and time. The file's content must already be on disk.
    pub(crate) fn publish(&self, private: &str, path: &str) -> io::Result<Stat> {
        let (folder, name) = parent(&self.folder, path, true)?;
        rustix::fs::renameat(&self.own, private, &folder, name)?;
        rustix::fs::fsync(&folder)?;
        let stat = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(of(&stat))
    }

    /// Moves a file from elsewhere on the same volume into the folder.
    pub(crate) fn take(&self, from: &Path, path: &str) -> io::Result<Stat> {
        let (folder, name) = parent(&self.folder, path, true)?;
        rustix::fs::renameat(rustix::fs::CWD, from, &folder, name)?;
        let stat = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(of(&stat))
    }

    /// Makes a folder.
    pub(crate) fn make_folder(&self, path: &str) -> io::Result<()> {
        let (folder, name) = parent(&self.folder, path, true)?;
        make_folder(&folder, name)
    }

    /// Removes a file, and the folders that become empty. A missing file is not an error.
    pub(crate) fn remove(&self, path: &str) -> io::Result<()> {
        let mut path = path;
        let Ok((folder, name)) = parent(&self.folder, path, false) else { return Ok(()) };
        if_found(rustix::fs::unlinkat(&folder, name, AtFlags::empty()).map_err(io::Error::from))?;
        while let Some((above, _)) = path.rsplit_once('/') {
            let Ok((folder, name)) = parent(&self.folder, above, false) else { break };
            if rustix::fs::unlinkat(&folder, name, AtFlags::REMOVEDIR).is_err() {
                break;
            }
            path = above;
        }
        Ok(())
    }

    /// Removes a private file or folder.
    pub(crate) fn remove_private(&self, name: &str) -> io::Result<()> {
        let path = self.private_path(name);
        let remove = |is_folder| if is_folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        if_found(fs::symlink_metadata(&path).and_then(|found| remove(found.is_dir()))).map(drop)
    }

    /// Returns the names of private files and folders.
    pub(crate) fn private_names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.path.join(OWN_FOLDER))?;
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    /// Replaces a private file atomically by the written content.
    pub(crate) fn replace_private(
        &self,
        name: &str,
        write: impl FnOnce(&File) -> io::Result<()>,
    ) -> io::Result<()> {
        let temporary = format!("{name}.new");
        self.remove_private(&temporary)?;
        let file = self.private(&temporary)?;
        write(&file)?;
        // The content must be on disk before the name is: a crash must leave the old file or the new one.
        file.sync_data()?;
        rustix::fs::renameat(&self.own, &temporary, &self.own, name)?;
        rustix::fs::fsync(&self.own)?;
        Ok(())
    }
}

fn of(stat: &rustix::fs::Stat) -> Stat {
    let nanoseconds = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
    Stat {
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified: stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(nanoseconds),
    }
}

/// Opens the folder of a path without following links. Returns it with the last part of the path.
fn parent<'a>(root: &OwnedFd, path: &'a str, make: bool) -> io::Result<(OwnedFd, &'a str)> {
    let mut folder = root.try_clone()?;
    let Some((above, name)) = path.rsplit_once('/') else { return Ok((folder, path)) };
    for part in above.split('/') {
        if make {
            make_folder(&folder, part)?;
        }
        folder = open_folder(&folder, part)?;
    }
    Ok((folder, name))
}

fn open_folder(above: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    rustix::fs::openat(above, name, FOLDER, Mode::empty()).map_err(|error| match error {
        rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP => {
            let name = names::shown(name);
            io::Error::other(format!(
                "`{name}` in this folder is a link or a file; expected a folder. Remove it: links are not \
                 followed"
            ))
        }
        error => error.into(),
    })
}

/// Returns `None` if there is nothing with the name.
pub(crate) fn if_found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

fn make_folder(above: &OwnedFd, name: &str) -> io::Result<()> {
    match rustix::fs::mkdirat(above, name, FOLDER_MODE) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_folder_that_was_removed_while_a_download_waited_is_created_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m");
        fs::create_dir(&path).unwrap();
        let first = Target::open(&path).unwrap();
        let lock = path.join(OWN_FOLDER).join("lock");
        let opened = || {
            let files = fs::read_dir("/proc/self/fd").unwrap().flatten();
            files.filter(|file| fs::read_link(file.path()).is_ok_and(|link| link == lock)).count()
        };
        std::thread::scope(|scope| {
            let second = scope.spawn(|| Target::open(&path).unwrap());
            while opened() < 2 {
                std::thread::yield_now();
            }
            fs::remove_dir_all(&path).unwrap();
            drop(first);
            second.join().unwrap().private("p").unwrap();
        });
        assert!(lock.exists());
    }

    #[test]
    fn links_in_the_target_lead_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dir.path().join("in"), dir.path().join("out"));
        fs::create_dir_all(&inside).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("x"), "secret").unwrap();
        symlink(&outside, inside.join("link")).unwrap();
        symlink(outside.join("x"), inside.join("file")).unwrap();
        let target = Target::open(&inside).unwrap();
        target.private("p").unwrap();
        assert!(target.publish("p", "link/x").is_err());
        assert!(target.read("link/x").is_err() && target.read("file").is_err());
        assert_eq!(target.stat("file"), None);
        // A symbolic link with the file's name is replaced. Its target stays unchanged.
        target.publish("p", "file").unwrap();
        assert_eq!(fs::read_to_string(outside.join("x")).unwrap(), "secret");
        assert_eq!(fs::read_to_string(inside.join("file")).unwrap(), "");
    }

    #[test]
    fn removing_a_file_removes_the_folders_that_held_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::open(dir.path()).unwrap();
        for path in ["a/b/c", "a/d"] {
            target.private("p").unwrap();
            target.publish("p", path).unwrap();
        }
        target.remove("a/b/c").unwrap();
        assert!(!dir.path().join("a/b").exists() && dir.path().join("a/d").exists());
        target.remove("a/b/c").unwrap();
    }
}
