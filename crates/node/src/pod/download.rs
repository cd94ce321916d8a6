//! The progress of a pod's model download.

use std::path::Path;

use longboat_download::{PORT_VARIABLE, PROGRESS_VARIABLE, Progress};
use tokio::time::Instant;

use super::machine::{Role, State};
use super::worker::Worker;
use crate::container::{launch::Launch, roles::FETCHES};

/// The state of the current download, if there is one.
#[derive(Debug, Default)]
pub(super) struct Download {
    /// The progress for people: bytes, rate and time left.
    pub(super) progress: Option<String>,
    /// When to read the progress again.
    look_at: Option<Instant>,
}

impl Worker {
    /// Tells a container that downloads a model where to write its progress. Removes the progress of an earlier instance.
    pub(super) fn ask_for_progress(&self, name: &str, launch: &mut Launch) {
        if launch.program.file_name().is_some_and(|program| program == FETCHES) {
            let file = self.directory.progress(name);
            // Usually the file does not exist.
            let _ = std::fs::remove_file(&file);
            launch.env.insert(PROGRESS_VARIABLE.to_owned(), file.to_string_lossy().into_owned());
            // On a cluster, the controller asks at this port. Here it would be open to the network, and nobody asks.
            launch.env.remove(PORT_VARIABLE);
        }
    }

    /// Reads the progress of the download, but not more often than [`crate::options::Timing::progress`] allows: each new
    /// value is a write of the pod's status. Returns when to read again.
    pub(super) fn look_at_download(&mut self) -> Option<Instant> {
        // Init containers run one after another, so at most one download runs.
        let file = self.members.iter().zip(&self.records).zip(&self.running).find_map(
            |((member, record), running)| {
                let runs = member.role == Role::Init && matches!(record.state, State::Running { .. });
                running.as_ref().filter(|_| runs)?.target.launch.env.get(PROGRESS_VARIABLE)
            },
        );
        let Some(file) = file else {
            self.download = Download::default();
            return None;
        };
        let (now, period) = (Instant::now(), self.shared.timing.progress);
        let due = *self.download.look_at.get_or_insert(now + period / 5);
        if now < due {
            return Some(due);
        }
        self.download.progress = Progress::read(Path::new(file)).map(|progress| progress.to_string());
        self.download.look_at = Some(now + period);
        self.download.look_at
    }
}
