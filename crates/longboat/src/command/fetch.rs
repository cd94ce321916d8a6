//! `fetch`: downloads models, with a progress bar on a terminal, or with lines in a log.

use std::{process::ExitCode, sync::Arc};

use longboat_download::Progress;
use longboat_fetch::{Args, Watcher};

use crate::printer::{self, Stream};

/// Runs the role. The error is the last line of the log, because a pod's termination message is the end of the log.
pub(super) fn run(args: Args) -> ExitCode {
    super::serve_on(longboat_fetch::runtime().map_err(Into::into), |shutdown| async move {
        let is_drawn = printer::is_terminal(Stream::Stderr);
        let watcher = is_drawn.then(|| -> Watcher { Arc::new(draw) });
        let result = tokio::select! {
            result = longboat_fetch::run(args, watcher) => {
                result.map_err(|error| anyhow::anyhow!("Storage initialization failed: {error}"))
            }
            () = shutdown.cancelled() => Err(anyhow::anyhow!(
                "stopped; the downloaded files are kept, and the next run resumes the download"
            )),
        };
        if is_drawn {
            printer::write(Stream::Stderr, "\r\x1b[K");
        }
        result
    })
}

/// Draws one line over the previous one.
fn draw(progress: &Progress) {
    const CELLS: u64 = 24;
    let filled =
        progress.bytes_done.saturating_mul(CELLS).checked_div(progress.bytes).unwrap_or(0).min(CELLS);
    let bar: String = (0..CELLS).map(|cell| if cell < filled { '█' } else { '░' }).collect();
    let text = format!("{bar} {}/{} files, {progress}", progress.files_done, progress.files);
    let text: String = text.chars().take(printer::size(Stream::Stderr).columns.saturating_sub(1)).collect();
    printer::write(Stream::Stderr, &format!("\r{text}\x1b[K"));
}
