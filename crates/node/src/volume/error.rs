//! Why a volume cannot be set up.

use std::io;
use std::path::PathBuf;

use crate::container::env::EnvError;

/// Why a volume cannot be set up; shown in a `FailedMount` event.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VolumeError {
    #[error("MountVolume.SetUp failed for volume {volume:?} : {kind} {name:?} not found")]
    Missing { volume: String, kind: &'static str, name: String },
    #[error("MountVolume.SetUp failed for volume {volume:?} : references non-existent {kind} key: {key}")]
    MissingKey { volume: String, kind: &'static str, key: String },
    #[error("MountVolume.SetUp failed for volume {volume:?} : {message}")]
    Unsupported { volume: String, message: String },
    #[error("MountVolume.SetUp failed for volume {volume:?} : {source}")]
    Field {
        volume: String,
        #[source]
        source: EnvError,
    },
    #[error("MountVolume.SetUp failed for volume {volume:?} : cannot write {path}: {source}")]
    Write {
        volume: String,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("container {container:?} mounts volume {volume:?}, which the pod does not have")]
    NoSuchVolume { container: String, volume: String },
    #[error("container {container:?} has a subPath that leaves its volume: {path:?}")]
    SubPath { container: String, path: String },
}
