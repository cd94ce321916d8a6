//! What a process mounts before it becomes the program of a container.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The mounts of one container, and the folder where its program starts.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    /// Pairs of mount path and local path. A mount comes before those below it.
    pub(super) mounts: Vec<(PathBuf, PathBuf)>,
    /// An empty folder, to put together a root folder if a mount point is missing in the present one.
    pub(super) root: PathBuf,
    pub(super) cwd: PathBuf,
}

/// Why a container does not start in a mount namespace.
#[derive(Debug, thiserror::Error)]
pub(super) enum MountError {
    #[error("expected the description of the mounts as the first argument")]
    Plan,
    #[cfg(not(target_os = "linux"))]
    #[error("only Linux has mount namespaces")]
    System,
    #[error("cannot {action} {path}: {source}")]
    Action {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Splits a path into the longest beginning that exists, without links, and the rest.
pub(super) fn deepest_existing(path: &Path) -> (PathBuf, PathBuf) {
    let existing = path.ancestors().find_map(|beginning| Some((beginning.canonicalize().ok()?, beginning)));
    let (existing, beginning) = existing.unwrap_or(("/".into(), Path::new("/")));
    (existing, path.strip_prefix(beginning).unwrap_or(path).to_owned())
}
