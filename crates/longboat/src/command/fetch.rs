//! `fetch`: downloads models, with a progress bar on a terminal, or with lines in a log.

use std::process::ExitCode;

use longboat_fetch::Args;

use crate::model::ProgressBar;

/// Runs the role. The error is the last line of the log, because a pod's termination message is the end of the log.
pub(super) fn run(args: Args) -> ExitCode {
    super::serve_on(longboat_fetch::runtime().map_err(Into::into), |shutdown| async move {
        let bar = ProgressBar::new();
        tokio::select! {
            result = longboat_fetch::run(args, bar.watcher()) => {
                result.map_err(|error| anyhow::anyhow!("Storage initialization failed: {error}"))
            }
            () = shutdown.cancelled() => Err(anyhow::anyhow!(
                "stopped; the downloaded files are kept, and the next run resumes the download"
            )),
        }
    })
}
