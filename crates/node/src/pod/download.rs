//! How far the download of a pod's model is.

use std::path::Path;

use longboat_fetch::{PROGRESS_VARIABLE, Progress};
use tokio::time::Instant;

use super::machine::{Role, State};
use super::worker::Worker;
use crate::container::launch::Launch;

/// The link that runs a container which downloads.
const FETCHES: &str = "storage-initializer";

/// What is known of the download that runs, if one does.
#[derive(Debug, Default)]
pub(super) struct Download {
    /// For people: bytes, rate and time left.
    pub(super) progress: Option<String>,
    /// When to look next.
    look_at: Option<Instant>,
}

impl Worker {
    /// Lets a container that downloads a model write how far it is. What an earlier instance wrote is removed.
    pub(super) fn ask_for_progress(&self, name: &str, launch: &mut Launch) {
        if launch.program.file_name().is_some_and(|program| program == FETCHES) {
            let file = self.directory.progress(name);
            // Usually there is none.
            let _ = std::fs::remove_file(&file);
            launch.env.insert(PROGRESS_VARIABLE.to_owned(), file.to_string_lossy().into_owned());
        }
    }

    /// Reads how far the download is, not more often than [`crate::options::Timing::progress`] allows: each new answer is a
    /// write of the pod's status. Answers when to look again.
    pub(super) fn look_at_download(&mut self) -> Option<Instant> {
        // Init containers run one after another.
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
