//! The progress of the model's download, if it is known.

use longboat_api::{
    conditions::{Conditions, types::MODEL_FETCHED},
    reasons::condition::{DOWNLOADING, PROGRESS_UNKNOWN},
};

/// The state of a running download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Download {
    /// The progress.
    Progress(String),
    /// The reason why the progress is unknown.
    Silent(String),
}

/// Sets the condition while a download runs. `Ready` does not depend on it, because the workload's condition says that the
/// workload waits.
pub(super) fn report(download: Option<&Download>, conditions: &mut Conditions) {
    match download {
        None => conditions.clear(MODEL_FETCHED),
        Some(Download::Progress(text)) => conditions.mark_false(MODEL_FETCHED, DOWNLOADING, text),
        Some(Download::Silent(why)) => conditions.mark_false(MODEL_FETCHED, PROGRESS_UNKNOWN, why),
    }
}
