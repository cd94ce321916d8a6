//! The progress of a download, for the log, for a progress bar, and for other programs.

use std::{
    collections::VecDeque,
    fmt,
    io::Read,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, MissedTickBehavior, interval};

/// Time between two log lines.
const LINES: Duration = Duration::from_secs(10);
/// Time between two updates of the progress file and the bar.
const TICK: Duration = Duration::from_millis(500);
/// The time over which the rate is averaged.
const WINDOW: Duration = Duration::from_secs(10);

/// The longest progress file that is read, in bytes.
const LARGEST: usize = 4096;

/// The type of a pod condition whose message shows the progress of the model's download. The condition is present and `False`
/// while an init container downloads on a local node.
pub const PROGRESS_CONDITION: &str = "longboat.dev/ModelFetched";

/// A callback that receives the progress about twice a second, for example to draw a bar.
pub type Watcher = Arc<dyn Fn(&Progress) + Send + Sync>;

/// The progress of a download. Its JSON is the content of the file of `LONGBOAT_FETCH_PROGRESS`. Its text is `downloading
/// 3.2/15.2 GB, 210 MB/s, 57 s left`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// The number of files.
    pub files: u64,
    /// Files that are complete.
    pub files_done: u64,
    /// The total size in bytes, as far as it is known.
    pub bytes: u64,
    /// Bytes that are complete.
    pub bytes_done: u64,
    /// The download rate in bytes per second.
    pub bytes_per_second: u64,
    /// Estimated seconds until the end. `None` if there is no estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<u64>,
}

/// The counters of a download.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) files: AtomicU64,
    pub(crate) files_done: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) bytes_done: AtomicU64,
    /// Bytes that arrived in this run.
    pub(crate) arrived: AtomicU64,
    samples: Mutex<VecDeque<(Instant, u64)>>,
}

// === impl Progress ===

impl Progress {
    /// Reads the progress file of a download. Returns `None` if the file does not exist or has another content.
    pub fn read(path: &Path) -> Option<Self> {
        let mut text = Vec::new();
        std::fs::File::open(path).ok()?.take(LARGEST as u64 + 1).read_to_end(&mut text).ok()?;
        Self::parse(&text)
    }

    /// Parses the progress of a download. Returns `None` if the text is something else or too long.
    pub fn parse(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok().filter(|_| text.len() <= LARGEST)
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.files == 0 {
            return f.write_str("asking the source for its files");
        }
        let (unit, name) = unit(self.bytes.max(self.bytes_done));
        let amount = |bytes: u64| decimal(bytes, unit);
        if self.bytes == 0 {
            write!(f, "downloading {} {name}", amount(self.bytes_done))?;
        } else {
            write!(f, "downloading {}/{} {name}", amount(self.bytes_done), amount(self.bytes))?;
        }
        if self.bytes_per_second > 0 {
            let (unit, name) = self::unit(self.bytes_per_second);
            write!(f, ", {} {name}/s", self.bytes_per_second / unit)?;
        }
        match self.seconds_left {
            None => Ok(()),
            Some(seconds @ 0..120) => write!(f, ", {seconds} s left"),
            Some(seconds @ 120..7200) => write!(f, ", {} min left", seconds / 60),
            Some(seconds) => write!(f, ", {} h left", seconds / 3600),
        }
    }
}

fn unit(bytes: u64) -> (u64, &'static str) {
    match bytes {
        1_000_000_000.. => (1_000_000_000, "GB"),
        1_000_000.. => (1_000_000, "MB"),
        1_000.. => (1_000, "kB"),
        _ => (1, "B"),
    }
}

fn decimal(bytes: u64, unit: u64) -> String {
    if unit == 1 { bytes.to_string() } else { format!("{}.{}", bytes / unit, bytes % unit * 10 / unit) }
}

// === impl Counters ===

impl Counters {
    /// Adds bytes that arrived.
    pub(crate) fn arrived(&self, bytes: u64) {
        self.bytes_done.fetch_add(bytes, Relaxed);
        self.arrived.fetch_add(bytes, Relaxed);
    }

    /// Subtracts bytes that became useless.
    pub(crate) fn lost(&self, bytes: u64) {
        self.bytes_done.fetch_sub(bytes, Relaxed);
    }

    /// Returns the current progress.
    pub(crate) fn now(&self) -> Progress {
        self.look(Instant::now())
    }

    fn look(&self, now: Instant) -> Progress {
        let arrived = self.arrived.load(Relaxed);
        let mut samples = self.samples.lock();
        // Calls in quick succession add no samples.
        if samples.back().is_none_or(|(then, _)| now.duration_since(*then) >= TICK / 2) {
            samples.push_back((now, arrived));
        }
        while samples.len() > 2 && now.duration_since(samples[1].0) > WINDOW {
            samples.pop_front();
        }
        let (since, then) = samples[0];
        let millis = u64::try_from(now.duration_since(since).as_millis()).unwrap_or(u64::MAX);
        let rate = (arrived - then).saturating_mul(1000).checked_div(millis).unwrap_or(0);
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
    pub(crate) async fn tell(&self, watcher: Option<&Watcher>, file: Option<&Path>) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_line = Instant::now();
        loop {
            ticks.tick().await;
            let now = Instant::now();
            let progress = self.look(now);
            if progress.files == 0 {
                continue;
            }
            if let Some(file) = file {
                write(file, &progress);
            }
            if let Some(watcher) = watcher {
                watcher(&progress);
            } else if now.duration_since(last_line) >= LINES {
                last_line = now;
                tracing::info!(files = format!("{}/{}", progress.files_done, progress.files), "{progress}");
            }
        }
    }

    /// Reports the end of the download.
    pub(crate) fn end(&self, watcher: Option<&Watcher>, file: Option<&Path>) {
        let progress = Progress { seconds_left: Some(0), ..self.look(Instant::now()) };
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
    fn progress_reads_as_people_say_it() {
        let progress = Progress {
            files: 3,
            files_done: 1,
            bytes: 15_200_000_000,
            bytes_done: 3_240_000_000,
            bytes_per_second: 210_000_000,
            seconds_left: Some(57),
        };
        assert_eq!(progress.to_string(), "downloading 3.2/15.2 GB, 210 MB/s, 57 s left");
        let unknown = Progress { files: 1, bytes_done: 1_500_000, ..Progress::default() };
        assert_eq!(unknown.to_string(), "downloading 1.5 MB");
        assert_eq!(Progress::default().to_string(), "asking the source for its files");
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("p"), &progress);
        assert_eq!(Progress::read(&dir.path().join("p")), Some(progress));
    }

    #[tokio::test(start_paused = true)]
    async fn the_rate_is_that_of_the_last_seconds() {
        let counters = Counters::default();
        counters.bytes.store(10_000, Relaxed);
        counters.look(Instant::now());
        tokio::time::advance(Duration::from_secs(2)).await;
        counters.arrived(4_000);
        let progress = counters.look(Instant::now());
        assert_eq!((progress.bytes_per_second, progress.seconds_left), (2_000, Some(3)));
    }
}
