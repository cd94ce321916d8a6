//! The state folder of a local cluster, and the lock that prevents a second cluster in it.

use std::{
    fs::{File, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

/// The state folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Another cluster is using it.
    #[error("folder `{}` is in use by another `longboat up`", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// It cannot be created or opened.
    #[error("cannot use folder `{}` for state", path.display())]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// The operating system's reason.
        #[source]
        source: io::Error,
    },
    /// It belongs to another user of this machine.
    #[error(
        "folder `{}` belongs to another user (uid {owner}), who could read the credentials in it: use a \
         folder of your own",
        path.display()
    )]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// The other user.
        owner: u32,
    },
}

/// A locked folder. A temporary one is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct StateDir {
    path: PathBuf,
    temporary: Option<tempfile::TempDir>,
    /// The kernel releases the lock when the process ends for any reason.
    _lock: File,
}

// === impl StateDir ===

impl StateDir {
    /// Opens or creates `path`, or creates a temporary folder. Only the user can access the folder, because it holds
    /// credentials.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, StateError> {
        let temporary = if path.is_some() {
            None
        } else {
            let made = tempfile::Builder::new().prefix("longboat-").tempdir();
            Some(made.map_err(|source| StateError::Io { path: std::env::temp_dir(), source })?)
        };
        // One of the two is there.
        let path =
            path.or(temporary.as_ref().map(tempfile::TempDir::path)).unwrap_or(Path::new(".")).to_owned();
        create_private(&path)?;
        let path = path.canonicalize().map_err(|source| StateError::Io { path: path.clone(), source })?;
        let file = path.join("lock");
        // The lock is that of the open file: the file itself stays, so that no two processes lock different files of one name.
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&file);
        let lock = lock.map_err(|source| StateError::Io { path: file, source })?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            Errno::WOULDBLOCK => StateError::InUse { path: path.clone() },
            // A network file system may have no locks.
            other => StateError::Io { path: path.clone(), source: other.into() },
        })?;
        Ok(Self { path, temporary, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }
}

/// Creates a folder that only the user can access, or removes the permissions of others from an existing folder.
pub(crate) fn create_private(path: &Path) -> Result<(), StateError> {
    let failed = |source| StateError::Io { path: path.to_owned(), source };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    restrict_to_owner(path)
}

/// Removes the permissions of others from an existing folder.
fn restrict_to_owner(path: &Path) -> Result<(), StateError> {
    let failed = |source| StateError::Io { path: path.to_owned(), source };
    let metadata = path.metadata().map_err(failed)?;
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(StateError::Foreign { path: path.to_owned(), owner: metadata.uid() });
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 != 0 {
        std::fs::set_permissions(path, Permissions::from_mode(mode & !0o077 | 0o700)).map_err(failed)?;
        tracing::info!(
            path = %path.display(),
            "Removed the rights of other users on the state folder, because it has credentials."
        );
    }
    Ok(())
}

/// Writes a file that only the user can read.
pub(crate) fn write_private(path: &Path, content: &str) -> Result<(), StateError> {
    let failed = |source| StateError::Io { path: path.to_owned(), source };
    let mut file =
        OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path).map_err(failed)?;
    io::Write::write_all(&mut file, content.as_bytes()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_world_in_the_same_folder_is_refused_until_the_first_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/state");
        let first = StateDir::open(Some(&path)).unwrap();
        assert!(matches!(StateDir::open(Some(&path)), Err(StateError::InUse { .. })));
        drop(first);
        assert!(StateDir::open(Some(&path)).is_ok());
    }

    #[test]
    fn a_folder_that_others_could_look_into_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("open");
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        let _state = StateDir::open(Some(&path)).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_folder_of_somebody_else_is_refused() {
        // Only root runs tests as the owner of this folder.
        if rustix::process::geteuid().is_root() {
            let dir = tempfile::tempdir().unwrap();
            rustix::fs::chown(dir.path(), Some(rustix::fs::Uid::from_raw(65_534)), None).unwrap();
            assert!(matches!(StateDir::open(Some(dir.path())), Err(StateError::Foreign { .. })));
        } else {
            assert!(matches!(StateDir::open(Some(Path::new("/"))), Err(StateError::Foreign { .. })));
        }
    }

    #[test]
    fn a_temporary_folder_goes_with_the_world() {
        let state = StateDir::open(None).unwrap();
        let path = state.path().to_owned();
        assert!(path.is_dir() && state.is_temporary());
        drop(state);
        assert!(!path.exists());
    }
}
