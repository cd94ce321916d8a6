//! The interface of a download: addresses, its environment variables, its pod condition and its progress. Planner,
//! controller and node use this crate so that they need not link the download itself.

pub mod adapters;
pub mod address;
pub mod image;

use std::{fmt, io::Read};

use serde::{Deserialize, Serialize};

/// Set by the node: `skip` if the engine is the simulator, `cache` if it is a real engine, and `offline` if a real engine
/// must not use the network.
pub const MODE_VARIABLE: &str = "LONGBOAT_FETCH";
/// Seconds without a byte of progress after which a download fails.
pub const PATIENCE_VARIABLE: &str = "LONGBOAT_FETCH_PATIENCE";
/// The path of a file that contains the latest progress, as JSON.
pub const PROGRESS_VARIABLE: &str = "LONGBOAT_FETCH_PROGRESS";
/// The port on which a download serves its progress, on every address of the pod. If unset, the download does not listen.
pub const PORT_VARIABLE: &str = "LONGBOAT_FETCH_PORT";
/// The folder that keeps remote models between runs.
pub const CACHE_VARIABLE: &str = "LONGBOAT_CACHE";
/// A folder with models that are on this machine already. A model of the hub is taken from there, by its name, instead of being
/// downloaded.
pub const MODELS_VARIABLE: &str = "LONGBOAT_MODELS";
/// The patterns of the files to download.
pub const ALLOW_VARIABLE: &str = "STORAGE_ALLOW_PATTERNS";
/// The patterns of the files to leave out of a download.
pub const IGNORE_VARIABLE: &str = "STORAGE_IGNORE_PATTERNS";

/// The longest progress that is read, in bytes.
const MAX_PROGRESS: usize = 4096;

/// The type of a pod condition whose message shows the progress of the model's download. The condition is present and `False`
/// while an init container downloads on a local node.
pub const PROGRESS_CONDITION: &str = "longboat.dev/ModelFetched";

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

// === impl Progress ===

impl Progress {
    /// Reads the progress file of a download. Returns `None` if it has another content.
    pub fn read(file: impl Read) -> Option<Self> {
        let mut text = Vec::new();
        file.take(MAX_PROGRESS as u64 + 1).read_to_end(&mut text).ok()?;
        Self::parse(&text)
    }

    /// Parses the progress of a download. Returns `None` if the text is something else or too long.
    pub fn parse(text: &[u8]) -> Option<Self> {
        // The text comes from a pod, whose image may answer anything.
        serde_json::from_slice(text).ok().filter(|_| text.len() <= MAX_PROGRESS)
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

/// Kubernetes' name of this machine's architecture, which images have, too.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
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
        let written = serde_json::to_vec(&progress).unwrap();
        assert_eq!(Progress::read(&*written), Some(progress));
    }
}
