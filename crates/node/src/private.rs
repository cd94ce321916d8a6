//! Folders and files that only their owner can access, because they may hold secrets.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path};

/// Creates a folder and its missing parents.
pub(crate) fn create_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates a folder, which must not exist yet.
pub(crate) fn create_new_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Creates a file, or empties an existing one.
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Writes a file.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create_file(path)?.write_all(bytes)
}

/// Returns `None` if there is nothing at a path.
pub(crate) fn if_found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Whether a name from a manifest names an entry of a folder and cannot lead out of the folder.
pub(crate) fn is_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    !name.contains('\0')
        && matches!((components.next(), components.next()), (Some(Component::Normal(only)), None) if only == name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn names_stay_in_their_folder() {
        for name in ["weights", "a.b", "..a", "a..b"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", ".", "..", "../x", "/x", "a/b", "a/", "./a", "a/..", "a\0"] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn others_can_look_into_nothing() {
        let dir = tempfile::tempdir().unwrap();
        create_dir(&dir.path().join("a/b")).unwrap();
        write(&dir.path().join("a/b/c"), b"x").unwrap();
        for path in ["a", "a/b", "a/b/c"] {
            let mode = dir.path().join(path).metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{path} {mode:o}");
        }
    }
}
