//! How far the download of the model is, where somebody knows.

use longboat_api::{
    conditions::{Conditions, types::MODEL_FETCHED},
    reasons::condition::{DOWNLOADING, PROGRESS_UNKNOWN},
};

/// What is known of a download that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Download {
    /// How far it is.
    Progress(String),
    /// Why that is not known.
    Silent(String),
}

/// The condition is there while a download runs. `Ready` does not depend on it: the workload's own condition says that it waits.
pub(super) fn report(download: Option<&Download>, conditions: &mut Conditions) {
    match download {
        None => conditions.clear(MODEL_FETCHED),
        Some(Download::Progress(text)) => conditions.mark_false(MODEL_FETCHED, DOWNLOADING, text),
        Some(Download::Silent(why)) => conditions.mark_false(MODEL_FETCHED, PROGRESS_UNKNOWN, why),
    }
}
