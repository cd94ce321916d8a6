//! `fetch`: downloads models, with a progress bar on a terminal, or with lines in a log; or keeps the LoRA adapters of a pod loaded.

use std::process::ExitCode;

use longboat_fetch::{FetchError, LoaderArgs, Settings};
use longboat_node::container::roles::DOWNLOADS_VARIABLE;

use super::models::until_stopped;
use crate::{cli::FetchArgs, model::ProgressBar};

/// Runs the role. The error is the last line of the log, because a pod's termination message is the end of the log.
pub(super) fn run(args: FetchArgs) -> ExitCode {
    let FetchArgs { mut downloads, loader } = args;
    if let (true, Ok(text)) = (downloads.pairs.is_empty(), std::env::var(DOWNLOADS_VARIABLE)) {
        downloads.pairs = text.lines().map(ToOwned::to_owned).collect();
    }
    super::serve_on(longboat_fetch::runtime().map_err(Into::into), |shutdown| async move {
        let failed = |error: FetchError| anyhow::anyhow!("Storage initialization failed: {error}");
        if let LoaderArgs { adapter_list: Some(list), .. } = &loader {
            let settings = Settings::from_environment().map_err(failed)?;
            let kept = longboat_fetch::keep_adapters_loaded(list.clone(), &loader, downloads.mode, settings);
            let ended = shutdown.run_until_cancelled(kept).await.unwrap_or(Ok(()));
            return ended.map_err(|error| anyhow::anyhow!("cannot load LoRA adapters: {error}"));
        }
        let bar = ProgressBar::new();
        let download = Box::pin(longboat_fetch::run(downloads, bar.watcher()));
        until_stopped(&shutdown, async { download.await.map_err(failed) }).await
    })
}
