//! Why a volume cannot be set up.

use std::io;
use std::path::{Path, PathBuf};

use crate::container::env::EnvError;
use crate::container::sources::SourceKind;

/// Why the volumes of a pod cannot be used; shown in a `FailedMount` event.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VolumeError {
    #[error("MountVolume.SetUp failed for volume {volume:?} : {problem}")]
    SetUp { volume: String, problem: SetUpProblem },
    #[error("container {container:?} mounts volume {volume:?}, which the pod does not have")]
    NoSuchVolume { container: String, volume: String },
    #[error("container {container:?} has a subPath that leaves its volume: {path:?}")]
    SubPath { container: String, path: String },
}

/// Why one volume cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetUpProblem {
    #[error("references non-existent {} key: {key}", kind.lower_case())]
    MissingKey { kind: SourceKind, key: String },
    #[error("{0}")]
    Unsupported(String),
    #[error(transparent)]
    Source(#[from] EnvError),
    #[error("cannot write {path}: {source}")]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl VolumeError {
    pub(super) fn of(volume: &str) -> impl FnOnce(SetUpProblem) -> Self {
        move |problem| Self::SetUp { volume: volume.to_owned(), problem }
    }
}

impl SetUpProblem {
    pub(super) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Write { path: path.to_owned(), source }
    }
}
