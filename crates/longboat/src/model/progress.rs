//! The progress bar of a download.

use std::sync::Arc;

use longboat_download::Progress;
use longboat_fetch::Watcher;

use crate::printer::{self, Stream};

/// A progress bar on stderr, which is there while this value exists. There is none if stderr is no terminal.
pub(crate) struct ProgressBar {
    is_drawn: bool,
}

// === impl ProgressBar ===

impl ProgressBar {
    pub(crate) fn new() -> Self {
        Self { is_drawn: printer::is_terminal(Stream::Stderr) }
    }

    /// Returns the watcher that draws the bar.
    pub(crate) fn watcher(&self) -> Option<Watcher> {
        self.is_drawn.then(|| -> Watcher { Arc::new(draw) })
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        if self.is_drawn {
            printer::write(Stream::Stderr, "\r\x1b[K");
        }
    }
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
