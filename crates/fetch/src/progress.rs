//! The progress of a download, for the log, for a progress bar, and for other programs.

use std::{
    collections::{BTreeMap, VecDeque},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use longboat_download::Progress;
use parking_lot::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::digest::Digest;

/// Time between two log lines.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Time between two updates of the progress file and the bar.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);
/// The time over which the rate is averaged.
const RATE_WINDOW: Duration = Duration::from_secs(10);

/// A callback that receives the progress about twice a second, for example to draw a bar.
pub type Watcher = Arc<dyn Fn(&Progress) + Send + Sync>;

/// The counters of a download.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) files: AtomicU64,
    pub(crate) files_done: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) bytes_done: AtomicU64,
    /// Bytes that arrived in this run.
    pub(crate) received: AtomicU64,
    /// The number of downloaded files for each kind of check.
    checks: Mutex<BTreeMap<String, u64>>,
    samples: Mutex<VecDeque<(Instant, u64)>>,
}

// === impl Counters ===

impl Counters {
    /// Adds bytes that arrived.
    pub(crate) fn add_received(&self, bytes: u64) {
        self.bytes_done.fetch_add(bytes, Relaxed);
        self.received.fetch_add(bytes, Relaxed);
    }

    /// Subtracts bytes that became useless.
    pub(crate) fn lost(&self, bytes: u64) {
        self.bytes_done.fetch_sub(bytes, Relaxed);
    }

    /// Counts a downloaded file, and how it was checked.
    pub(crate) fn checked(&self, digest: Option<&Digest>) {
        self.files_done.fetch_add(1, Relaxed);
        let kind = digest.map_or_else(|| "size only".to_owned(), Digest::kind);
        *self.checks.lock().entry(kind).or_default() += 1;
    }

    /// Logs how the files since the last call were checked.
    pub(crate) fn log_checks(&self) {
        let checks = std::mem::take(&mut *self.checks.lock());
        if !checks.is_empty() {
            let checks: Vec<String> =
                checks.iter().map(|(kind, count)| format!("{count} by {kind}")).collect();
            tracing::info!("Checked the downloaded files: {}.", checks.join(", "));
        }
    }

    /// Returns the current progress.
    pub(crate) fn progress(&self) -> Progress {
        self.sample(Instant::now())
    }

    fn sample(&self, now: Instant) -> Progress {
        let received = self.received.load(Relaxed);
        let mut samples = self.samples.lock();
        // Calls in quick succession add no samples.
        if samples.back().is_none_or(|(then, _)| now.duration_since(*then) >= REPORT_INTERVAL / 2) {
            samples.push_back((now, received));
        }
        while samples.len() > 2 && now.duration_since(samples[1].0) > RATE_WINDOW {
            samples.pop_front();
        }
        let (since, then) = samples[0];
        let millis = u64::try_from(now.duration_since(since).as_millis()).unwrap_or(u64::MAX);
        let rate = (received - then).saturating_mul(1000).checked_div(millis).unwrap_or(0);
        let (bytes, bytes_done) = (self.bytes.load(Relaxed), self.bytes_done.load(Relaxed));
        Progress {
            files: self.files.load(Relaxed),
            files_done: self.files_done.load(Relaxed),
            bytes,
            bytes_done,
            bytes_per_second: rate,
            seconds_left: bytes
                .checked_sub(bytes_done)
                .filter(|_| bytes > 0)
                .and_then(|left| left.checked_div(rate)),
        }
    }

    /// Reports the progress until the future is dropped: to the file and the watcher, or, without a watcher, to the log every
    /// ten seconds.
    pub(crate) async fn report(&self, watcher: Option<&Watcher>, file: Option<&Path>) {
        let mut ticks = interval(REPORT_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_line = Instant::now();
        loop {
            ticks.tick().await;
            let now = Instant::now();
            let progress = self.sample(now);
            if progress.files == 0 {
                continue;
            }
            if let Some(file) = file {
                write(file, &progress);
            }
            if let Some(watcher) = watcher {
                watcher(&progress);
            } else if now.duration_since(last_line) >= LOG_INTERVAL {
                last_line = now;
                tracing::info!(files = format!("{}/{}", progress.files_done, progress.files), "{progress}");
            }
        }
    }

    /// Reports the end of the download.
    pub(crate) fn report_end(&self, watcher: Option<&Watcher>, file: Option<&Path>) {
        let progress = Progress { seconds_left: Some(0), ..self.sample(Instant::now()) };
        if let Some(file) = file {
            write(file, &progress);
        }
        if let Some(watcher) = watcher {
            watcher(&progress);
        }
    }
}

/// Replaces the file atomically, so readers see the old content or the new one. If this fails, the download goes on.
fn write(file: &Path, progress: &Progress) {
    let new = file.with_extension("new");
    let text = serde_json::to_vec(progress).unwrap_or_default();
    if std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, file)).is_err() {
        tracing::debug!(file = %file.display(), "Cannot write the progress.");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_the_last_progress() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("p");
        for files in [1, 2] {
            let progress = Progress { files, ..Progress::default() };
            write(&file, &progress);
            assert_eq!(Progress::read(std::fs::File::open(&file).unwrap()), Some(progress));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_rate_is_that_of_the_last_seconds() {
        let counters = Counters::default();
        counters.bytes.store(10_000, Relaxed);
        counters.sample(Instant::now());
        tokio::time::advance(Duration::from_secs(2)).await;
        counters.add_received(4_000);
        let progress = counters.sample(Instant::now());
        assert_eq!((progress.bytes_per_second, progress.seconds_left), (2_000, Some(3)));
    }
}
