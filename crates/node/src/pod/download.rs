//! The progress of a pod's model download.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use longboat_download::{PORT_VARIABLE, PROGRESS_VARIABLE, Progress};
use tokio::time::Instant;

use crate::container::{launch::Launch, roles::FETCHES};

/// The state of the current download, if there is one.
#[derive(Debug, Default)]
pub(super) struct Download {
    /// The progress for people: bytes, rate and time left.
    pub(super) progress: Option<String>,
    /// When to read the progress again.
    look_at: Option<Instant>,
}

/// Tells a container that downloads a model to write its progress to `file`. Removes the progress of an earlier instance.
pub(super) fn ask_for_progress(file: &Path, launch: &mut Launch) {
    if launch.program.file_name().is_some_and(|program| program == FETCHES) {
        // Usually the file does not exist.
        let _ = std::fs::remove_file(file);
        launch.env.insert(PROGRESS_VARIABLE.to_owned(), file.to_string_lossy().into_owned());
        // On a cluster, the controller asks at this port. Here it would be open to the network, and nobody asks.
        launch.env.remove(PORT_VARIABLE);
    }
}

impl Download {
    /// Reads the progress that the running init container writes, but not more often than once in `period`: each new value is
    /// a write of the pod's status. Returns when to read again.
    pub(super) fn look(&mut self, running: Option<&Launch>, period: Duration) -> Option<Instant> {
        let Some(file) = running.and_then(|launch| launch.env.get(PROGRESS_VARIABLE)) else {
            *self = Self::default();
            return None;
        };
        let now = Instant::now();
        let due = *self.look_at.get_or_insert(now + period / 5);
        if now < due {
            return Some(due);
        }
        self.progress = File::open(file).ok().and_then(Progress::read).map(|progress| progress.to_string());
        self.look_at = Some(now + period);
        self.look_at
    }
}
